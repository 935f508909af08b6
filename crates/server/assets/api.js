// Client of the service's API: requests, the token, and problem documents (RFC 9457).
import { parseJson } from "./json.js";

const TOKEN = "virtualize.token";

/** An error: one line of detail, and a hint. */
export class Problem extends Error {
  constructor(message, { hint = null, status = 0, code = null, request = null } = {}) {
    super(message);
    this.hint = hint;
    this.status = status;
    this.code = code;
    this.request = request;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

/** Returns the address of an endpoint below `v1/`, relative to the page, so that a proxy may serve it below a path. */
export function address(path, query = {}) {
  const url = new URL(`v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** Sends a request; throws a `Problem` unless it succeeds. */
export async function request(url, { method = "GET", body, headers = {}, signal, allow = [] } = {}) {
  const all = { ...headers };
  if (token.get()) all.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url, { method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), signal, redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The service does not answer.", { hint: "It may have been stopped, or the network is down." });
  }
  if (response.ok || allow.includes(response.status)) return response;
  throw await problem(response);
}

async function problem(response) {
  const text = await response.text().catch(() => "");
  let said = {};
  try {
    const parsed = JSON.parse(text);
    if (parsed && typeof parsed === "object") said = parsed;
  } catch {
    // Not JSON, for example a proxy's error page: only the status is shown.
  }
  const fallback = `The service answered ${response.status} ${response.statusText}`.trim();
  return new Problem(said.detail ?? said.title ?? fallback, {
    hint: said.hint ?? hintFor(response),
    status: response.status,
    code: said.code ?? null,
    request: said.request_id ?? response.headers.get("x-request-id"),
  });
}

function hintFor(response) {
  const wait = response.headers.get("retry-after");
  if (response.status === 401) return "This service asks for a bearer token: enter it under Token.";
  if (response.status === 429 || response.status === 503) return wait ? `Try again in ${wait} seconds.` : "Try again in a moment.";
  return null;
}

export async function json(url, options) {
  const response = await request(url, options);
  return parseJson(await response.text());
}

export async function bytes(url, options) {
  const response = await request(url, options);
  return response.status === 404 ? null : response.arrayBuffer();
}
