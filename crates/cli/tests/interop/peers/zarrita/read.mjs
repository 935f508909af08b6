// Reads every array of reference files with zarrita.js: `node read.mjs REFERENCES.json…` prints one line of JSON an array,
// with its elements in C order as base64 of little-endian bytes (or as texts), or the reason why it cannot.
import { open as openFile, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import * as zarr from "zarrita";
import ReferenceStore from "@zarrita/storage/ref";

// A codec that is not known also rejects a promise that zarrita keeps to itself.
process.on("unhandledRejection", () => {});

/** Ranges of local files, which Node's own fetch does not read. */
async function fetchFile(request) {
  const [, start, end] = request.headers.get("Range").match(/bytes=(\d+)-(\d+)/).map(Number);
  const file = await openFile(fileURLToPath(request.url));
  try {
    const bytes = Buffer.alloc(end - start + 1);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
    return new Response(bytes.subarray(0, bytesRead), { status: 206 });
  } finally {
    await file.close();
  }
}

function arrayOf(key, document) {
  const cut = key.lastIndexOf("/");
  const [path, name] = [key.slice(0, Math.max(cut, 0)), key.slice(cut + 1)];
  const isArray = name === ".zarray" || (name === "zarr.json" && JSON.parse(document).node_type === "array");
  return isArray ? [path, name === ".zarray" ? "v2" : "v3"] : undefined;
}

/** Elements in C order: zarrita hands transposed chunks out with strides. */
function inOrder({ data, shape, stride }) {
  const ordered = shape.every((n, axis) => n === 1 || stride[axis] === shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  if (ordered || !("BYTES_PER_ELEMENT" in data)) return data;
  const result = new data.constructor(data.length);
  for (let at = 0; at < data.length; at++) {
    let [rest, from] = [at, 0];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      from += (rest % shape[axis]) * stride[axis];
      rest = Math.floor(rest / shape[axis]);
    }
    result[at] = data[from];
  }
  return result;
}

async function read(store, path, format) {
  const array = await zarr.open[format](zarr.root(store).resolve(path), { kind: "array" });
  // Of an array without axes `get` gives no bytes but a JavaScript number.
  const chunk = array.shape.length > 0 ? await zarr.get(array) : await array.getChunk([]);
  const { data } = chunk;
  if (Array.isArray(data) || "chars" in data) return { texts: [...data] };
  const { buffer, byteOffset, byteLength } = inOrder(chunk);
  return { values: Buffer.from(buffer, byteOffset, byteLength).toString("base64") };
}

for (const file of process.argv.slice(2)) {
  const references = JSON.parse(await readFile(file, "utf8"));
  const store = ReferenceStore.fromSpec(references, { fetch: fetchFile });
  for (const [key, document] of Object.entries(references.refs)) {
    const array = arrayOf(key, document);
    if (array === undefined) continue;
    const line = await read(store, ...array).catch((error) => ({ error: `${error}: ${error.cause ?? ""}` }));
    console.log(JSON.stringify({ references: file, array: array[0], ...line }));
  }
}
