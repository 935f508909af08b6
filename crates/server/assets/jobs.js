// Background jobs with live progress. Hidden if the service runs none.
import { address, json, request } from "./api.js";
import { announce, byId, count, fill, h } from "./dom.js";
import { listen } from "./events.js";

const OVER = ["done", "failed", "cancelled"];
/** Maximum number of jobs whose events are followed; the others are polled. */
const FOLLOWED = 4;
const PAUSE = 5000;

export class Jobs {
  /** @param {(error) => void} failed shows a problem */
  constructor(failed) {
    this.failed = failed;
    this.jobs = new Map();
    this.followed = new Map();
    this.form = byId("job-form");
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.start(); });
    byId("jobs-refresh").addEventListener("click", () => this.refresh());
  }

  /** Returns whether the service runs jobs. Asks `/v1/about`, since browsers log a 404 of `/v1/jobs` as an error. */
  async available() {
    try {
      return (await json(address("about"))).jobs === true;
    } catch {
      return false;
    }
  }

  async refresh() {
    clearTimeout(this.later);
    try {
      const listed = await json(address("jobs"));
      this.jobs = new Map(listed.map((job) => [String(job.id), { ...this.jobs.get(String(job.id)), ...job }]));
      this.draw();
      this.follow();
      if ([...this.jobs.values()].some((job) => !OVER.includes(job.state))) this.later = setTimeout(() => this.refresh(), PAUSE);
    } catch (error) {
      this.failed(error);
    }
  }

  async start() {
    const data = new FormData(this.form);
    const list = (name, by) => String(data.get(name) ?? "").split(by).map((text) => text.trim()).filter(Boolean);
    const inputs = list("inputs", /\n/);
    if (!inputs.length) return this.wrong("Give at least one input.", this.form.elements.inputs);
    const body = { kind: data.get("kind"), inputs, concat_dim: list("concat_dim", ","), stack_dim: list("stack_dim", ","), format: data.get("format") };
    const output = String(data.get("output") ?? "").trim();
    if (output) body.output = output;
    try {
      const { id } = await json(address("jobs"), { method: "POST", body });
      this.wrong("");
      announce(`Job ${id} started`);
      await this.refresh();
    } catch (error) {
      this.wrong([error.message, error.hint].filter(Boolean).join(" "), this.form.elements.inputs);
    }
    return undefined;
  }

  wrong(text, input) {
    byId("job-error").textContent = text;
    for (const each of this.form.elements) each.removeAttribute("aria-invalid");
    if (!text) return;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  follow() {
    for (const job of this.jobs.values()) {
      const id = String(job.id);
      if (OVER.includes(job.state) || this.followed.has(id) || this.followed.size >= FOLLOWED) continue;
      const stop = new AbortController();
      this.followed.set(id, stop);
      const heard = ({ data }) => this.heard(id, data);
      listen(address(`jobs/${encodeURIComponent(id)}/events`), heard, stop.signal)
        .catch(() => {}) // The job is requested again in any case.
        .finally(() => { this.followed.delete(id); this.one(id); });
    }
  }

  /** Handles an event, whose data is a job as in `GET /v1/jobs/{id}`, or a part of it. */
  heard(id, data) {
    try {
      const job = this.jobs.get(id);
      if (!job) return;
      const said = JSON.parse(data);
      if (said.state && said.state !== job.state) announce(`Job ${id}: ${said.state}`);
      Object.assign(job, said, { id: job.id });
      this.draw();
    } catch {
      // An event of another type.
    }
  }

  async one(id) {
    try {
      this.jobs.set(id, await json(address(`jobs/${encodeURIComponent(id)}`)));
      this.draw();
    } catch {
      // The job may have been removed.
    }
  }

  async cancel(id) {
    try {
      await request(address(`jobs/${encodeURIComponent(id)}`), { method: "DELETE" });
      await this.refresh();
    } catch (error) {
      this.failed(error);
    }
  }

  draw() {
    const had = document.activeElement?.dataset?.job;
    const rows = [...this.jobs.values()].map((job) => this.row(job));
    fill(byId("job-list"), rows.length ? rows : h("tr", {}, h("td", { colSpan: 6, class: "mute" }, "No jobs yet.")));
    if (had) byId("job-list").querySelector(`[data-job="${CSS.escape(had)}"]`)?.focus();
  }

  row(job) {
    const id = String(job.id);
    return h("tr", { "data-id": id },
      h("th", { scope: "row" }, h("code", {}, id)), h("td", {}, job.kind),
      h("td", {}, h("span", { class: `mark state-${job.state}` }, job.state), job.error ? h("div", { class: "error" }, words(job.error)) : null),
      h("td", {}, progress(job.progress)), h("td", {}, when(job.created)),
      h("td", {}, OVER.includes(job.state) ? links(job.result) : h("button", { type: "button", class: "quiet", "data-job": id, onclick: () => this.cancel(id) }, "Cancel")));
  }
}

const words = (error) => (typeof error === "string" ? error : error.detail ?? error.title ?? JSON.stringify(error));

function progress(of) {
  if (!of) return "";
  const read = (of.read ?? 0) + (of.failed ?? 0);
  const total = of.total ?? of.listed ?? 0;
  const text = `${count(read)} of ${count(total)}${of.failed ? `, ${count(of.failed)} failed` : ""}`;
  return [h("progress", { max: Math.max(1, total), value: read, "aria-label": text }), h("span", { class: "mute" }, ` ${text}`)];
}

function when(created) {
  if (!created) return "";
  const date = new Date(typeof created === "number" && created < 1e12 ? created * 1000 : created);
  return Number.isNaN(date.getTime()) ? String(created) : h("time", { dateTime: date.toISOString() }, date.toISOString().slice(0, 19).replace("T", " "));
}

/** Shows results: `links` by name, or a list. Only web addresses become links. */
function links(result) {
  if (!result?.links) return "";
  const named = Array.isArray(result.links) ? result.links.map((link) => [link.title ?? link.rel ?? link.href ?? link, link.href ?? link]) : Object.entries(result.links);
  return named.map(([name, href]) => {
    const url = new URL(String(href), document.baseURI);
    const fetched = url.protocol === "http:" || url.protocol === "https:";
    return h("div", {}, fetched ? h("a", { href: url.href }, name) : h("code", {}, String(href)));
  });
}
