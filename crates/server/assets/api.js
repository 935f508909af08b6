// Client of the service's API: requests, the token, problem documents (RFC 9457), and JSON with exact integers.

const TOKEN = "virtualize.token";

/** An error: one line of detail, and a hint. */
export class Problem extends Error {
  constructor(message, { hint = null, status = 0, code = null, request = null } = {}) {
    super(message);
    Object.assign(this, { hint, status, code, request });
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

/** Sends a request; throws a `Problem` unless it succeeds. The window gets `sourcechange` if the file was replaced. */
export async function request(url, { signal } = {}) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  let response;
  try {
    response = await fetch(url, { headers, signal, redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The service does not answer.", { hint: "It may have been stopped, or the network is down." });
  }
  if (response.ok) return response;
  const failure = await problem(response);
  if (failure.code === "source-changed") window.dispatchEvent(new Event("sourcechange"));
  throw failure;
}

async function problem(response) {
  // Not JSON, for example a proxy's error page: only the status is shown.
  const said = Object(await response.json().catch(() => null));
  const wait = response.headers.get("retry-after");
  const hints = { 401: "This service asks for a bearer token: enter it under Token.", 429: wait ? `Try again in ${wait} seconds.` : "Try again in a moment." };
  return new Problem(said.detail ?? said.title ?? `The service answered ${response.status} ${response.statusText}`.trim(), {
    hint: said.hint ?? hints[response.status === 503 ? 429 : response.status] ?? null,
    status: response.status,
    code: said.code ?? null,
    request: said.request_id ?? response.headers.get("x-request-id"),
  });
}

export async function json(url, options) {
  const response = await request(url, options);
  return JSON.parse(await response.text(), (_, value, context) => {
    const inexact = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return inexact && context?.source && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  });
}

/** Formats a value as in the file: integers of any size, text in quotes; on one line, or indented. */
export function show(value, indent = 0, depth = 0) {
  if (typeof value === "bigint") return String(value);
  // Integral numbers of that size are floats: printing all of their digits would overstate the precision.
  if (typeof value === "number" && Math.abs(value) >= 1e15) return value.toExponential();
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const pad = indent ? `\n${" ".repeat(indent * (depth + 1))}` : "";
  const end = indent ? `\n${" ".repeat(indent * depth)}` : "";
  const comma = indent ? "," : ", ";
  if (Array.isArray(value)) {
    if (value.every((item) => item === null || typeof item !== "object")) return `[${value.map((item) => show(item)).join(", ")}]`;
    return `[${value.map((item) => pad + show(item, indent, depth + 1)).join(comma)}${end}]`;
  }
  const members = Object.entries(value).map(([name, item]) => `${pad}${JSON.stringify(name)}: ${show(item, indent, depth + 1)}`);
  return members.length ? `{${members.join(comma)}${end}}` : "{}";
}

const packed = new Map();

/** Reads a data file of the page once. Returns what `decode` makes of its bytes. */
export async function readPacked(name, decode) {
  const read = async () => {
    const response = await request(new URL(name, import.meta.url));
    const bytes = Uint8Array.from(atob(await response.text()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return decode(new Uint8Array(await new Response(stream).arrayBuffer()));
  };
  if (!packed.has(name)) packed.set(name, read());
  try {
    return await packed.get(name);
  } catch (error) {
    packed.delete(name);
    throw error;
  }
}
