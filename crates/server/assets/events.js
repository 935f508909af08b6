// Server-sent events over fetch, as EventSource cannot send a token.
import { request } from "./api.js";

/** Calls `heard({event, data})` for each event until the stream ends. */
export async function listen(url, heard, signal) {
  const response = await request(url, { headers: { Accept: "text/event-stream" }, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split(/\r\n\r\n|\n\n|\r\r/);
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parse(block);
      if (event) heard(event);
    }
  }
}

function parse(block) {
  const event = { event: "message", data: [] };
  for (const line of block.split(/\r\n|\n|\r/)) {
    if (line.startsWith(":")) continue;
    const [, name, value] = /^([^:]*)(?:: ?(.*))?$/.exec(line);
    if (name === "event") event.event = value;
    else if (name === "data") event.data.push(value ?? "");
  }
  return event.data.length ? { event: event.event, data: event.data.join("\n") } : null;
}
