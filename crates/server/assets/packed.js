// Data files of the page: base64 of raw Deflate, so that they stay text.
import { request } from "./api.js";

/** Reads a data file of the page as bytes. */
export async function readPacked(name) {
  const response = await request(new URL(name, import.meta.url));
  const packed = Uint8Array.from(atob(await response.text()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
