// Code that reads a file through the service, or through its references, in other software.
import { quoted } from "./dom.js";

/** Stands for the token, which is never shown. */
const TOKEN = "TOKEN";

/**
 * Returns snippets `{id, title, needs, text}` for a group and, where software reads single arrays, an array or null.
 * `store` and `plain` are the addresses of the Zarr store with stored and with decoded chunks.
 */
export function snippets(context) {
  const { array } = context;
  return [
    { id: "xarray", title: "xarray", needs: packages(context, "xarray zarr fsspec aiohttp"), text: xarray(context) },
    { id: "zarr", title: "zarr-python", needs: packages(context, "zarr fsspec aiohttp"), text: zarr(context) },
    array && { id: "gdal", title: "GDAL (command line)", needs: "GDAL 3.8 or later", text: gdal(context) },
    array && { id: "rasterio", title: "GDAL (rasterio)", needs: "pip install rasterio", text: rasterio(context) },
    array && { id: "zarrita", title: "zarrita.js", needs: "npm install zarrita", text: zarrita(context) },
    { id: "kerchunk", title: "kerchunk references with fsspec and xarray", needs: packages(context, "xarray zarr fsspec aiohttp"), text: kerchunk(context) },
    virtualizarr(context) && { id: "virtualizarr", title: "VirtualiZarr", needs: packages(context, "virtualize virtualizarr obstore"), text: virtualizarr(context) },
    icechunk(context) && { id: "icechunk", title: "Icechunk", needs: packages(context, "virtualize virtualizarr obstore icechunk"), text: icechunk(context) },
  ].filter(Boolean);
}

const packages = (context, names) => `pip install ${names}${needsImagecodecs(context) ? " imagecodecs" : ""}`;

const needsImagecodecs = ({ arrays }) => arrays.some(({ description }) => description.readers?.["zarr-python"]?.needs?.includes("imagecodecs"));

/** Returns the lines that register the codecs of TIFF files, if the file needs them. Other packages register the same names. */
function codecs(context) {
  if (!needsImagecodecs(context)) return [];
  const names = context.arrays.flatMap(({ description }) => description.codecs).map((codec) => codec.name ?? codec.id ?? "");
  const own = [...new Set(names.filter((name) => /^imagecodecs_[a-z0-9_]+$/.test(name)))].sort();
  const pins = own.map((name) => {
    const bare = name.slice("imagecodecs_".length);
    return `"codecs.${name}": "imagecodecs.zarr.${bare[0].toUpperCase()}${bare.slice(1)}"`;
  });
  return ["import imagecodecs.zarr, zarr", "imagecodecs.zarr.register_codecs()", `zarr.config.set({${pins.join(", ")}})`];
}

const bearer = { headers: { Authorization: `Bearer ${TOKEN}` } };
const inGroup = ({ path }) => (path === "/" ? "" : `, group=${quoted(path.slice(1))}`);
const text = (...lines) => lines.flat().filter((line) => line !== null).join("\n");
const options = (hasToken) => (hasToken ? `, storage_options=${JSON.stringify({ client_kwargs: bearer })}` : "");

/** Returns the function of xarray that opens a group, and the name of its result. */
function opener(group) {
  if (!group.children.some((child) => child.kind === "group")) return ["ds", "open_dataset"];
  return aligned(group, new Map()) ? ["tree", "open_datatree"] : ["groups", "open_groups"];
}

/** Returns whether subgroups share the dimensions of their ancestors, as `open_datatree` requires. */
function aligned(group, above) {
  const sizes = new Map(above);
  for (const { kind, name, description: { dimensions, shape } } of group.children) {
    if (kind !== "array") continue;
    if (dimensions?.[0] === name && shape.length === 1 && above.has(name)) return false;
    for (const [axis, dimension] of (dimensions ?? []).entries()) {
      if (dimension === null) continue;
      if (sizes.has(dimension) && sizes.get(dimension) !== shape[axis]) return false;
      sizes.set(dimension, shape[axis]);
    }
  }
  return group.children.every((child) => child.kind !== "group" || aligned(child, sizes));
}

function xarray(context) {
  const [name, open] = opener(context.group);
  return text("import xarray as xr", codecs(context), "",
    `${name} = xr.${open}(${quoted(context.store)}, engine="zarr"${inGroup(context.group)}${options(context.hasToken)})`, `print(${name})`);
}

function zarr(context) {
  const { store, array, hasToken } = context;
  const imports = codecs(context);
  return text(imports.length ? imports : "import zarr", "", `root = zarr.open_group(${quoted(store)}, mode="r"${options(hasToken)})`,
    array ? [`array = root[${quoted(array.path.slice(1))}]`, "print(array.info)"] : "print(root.info)");
}

/** Returns GDAL's name of an array. GDAL lacks many codecs, so that it reads decoded chunks. */
const dataset = ({ plain, array }) => `ZARR:"/vsicurl/${plain}":${array.path}`;

function gdal(context) {
  const header = context.hasToken ? `--config GDAL_HTTP_HEADERS 'Authorization: Bearer ${TOKEN}' ` : "";
  return `gdalinfo ${header}${shell(dataset(context))}`;
}

/** Quotes an argument of a POSIX shell; one with invisible characters as bash and zsh read it. */
function shell(argument) {
  const escaped = quoted(argument).slice(1, -1);
  if (escaped === JSON.stringify(argument).slice(1, -1) && !/[\u0000-\u001f]/.test(argument)) return `'${argument.replaceAll("'", "'\\''")}'`;
  return `$'${escaped.replaceAll("'", "\\'")}'`;
}

function rasterio(context) {
  const open = `rasterio.open(${quoted(dataset(context))})`;
  const inside = [`with ${open} as raster:`, "    print(raster.profile)", "    values = raster.read(1)"];
  return context.hasToken
    ? text("import rasterio", "", `with rasterio.Env(GDAL_HTTP_HEADERS="Authorization: Bearer ${TOKEN}"):`, inside.map((line) => `    ${line}`))
    : text("import rasterio", "", inside);
}

function zarrita({ store, plain, array, hasToken }) {
  const reads = array.description.readers?.["zarrita.js"] ?? array.description.readers?.zarrita;
  const from = reads?.reads === "yes" ? store : plain;
  const more = hasToken ? `, { overrides: ${JSON.stringify(bearer)} }` : "";
  return text('import * as zarr from "zarrita";', "", `const root = zarr.root(new zarr.FetchStore(${quoted(from, "javascript")}${more}));`,
    `const array = await zarr.open(root.resolve(${quoted(array.path.slice(1), "javascript")}), { kind: "array" });`,
    "const { data, shape } = await zarr.get(array);", "console.log(shape, data);");
}

function kerchunk(context) {
  const { url, references, group, hasToken } = context;
  const [name, open] = opener(group);
  const storage = { fo: references };
  if (hasToken) storage.target_options = { client_kwargs: bearer };
  const remote = scheme(url);
  if (remote !== "file") storage.remote_protocol = remote === "https" ? "http" : remote;
  const fields = Object.entries(storage).map(([key, value]) => `    ${quoted(key)}: ${typeof value === "string" ? quoted(value) : JSON.stringify(value)},`);
  return text("import xarray as xr", codecs(context), "", "storage = {", fields, "}",
    `${name} = xr.${open}("reference://", engine="zarr", consolidated=False, storage_options=storage${inGroup(group)})`, `print(${name})`);
}

const scheme = (url) => /^([a-z0-9+.-]+):/i.exec(url)?.[1].toLowerCase() ?? "file";

/** Returns the lines that open the virtual dataset `vds` of a group. They read the file itself, not the service. */
function virtual(context) {
  const { url, group } = context;
  const origin = /^[a-z0-9+.-]+:\/\/[^/]*/i.exec(url)?.[0];
  if (!origin) return null;
  const more = scheme(url) === "http" ? ', client_options={"allow_http": True}' : "";
  const store = scheme(url) === "file" ? 'from_url("file:///")' : `from_url(${quoted(origin)}${more})`;
  return [
    "import virtualizarr", "from obspec_utils.registry import ObjectStoreRegistry", "from obstore.store import from_url", "from virtualize.virtualizarr import Parser", ...codecs(context), "",
    `registry = ObjectStoreRegistry({${quoted(origin)}: ${store}})`,
    `parser = Parser(${group.path === "/" ? "" : `group=${quoted(group.path.slice(1))}`})`,
    `vds = virtualizarr.open_virtual_dataset(${quoted(url)}, registry=registry, parser=parser, loadable_variables=[])`,
  ];
}

function virtualizarr(context) {
  const lines = virtual(context);
  return lines && text(lines, "print(vds)");
}

/** Returns Icechunk's expressions for the store of a source, and its credentials; null for stores that it cannot name. */
function container(url) {
  const folder = url.slice(0, url.lastIndexOf("/") + 1);
  switch (scheme(url)) {
    case "file": return [folder, `icechunk.local_filesystem_store(${quoted(decodeURI(folder).replace(/^file:\/\//, ""))})`, "icechunk.Credentials.LocalFileSystemAccess()"];
    case "s3": return [folder, 'icechunk.s3_store(region="us-east-1")', "icechunk.s3_credentials(from_env=True)"];
    case "gs": return [folder, "icechunk.gcs_store()", "icechunk.gcs_credentials(from_env=True)"];
    case "https": case "http": return [folder, "icechunk.http_store()", "None"];
    default: return null;
  }
}

function icechunk(context) {
  const lines = virtual(context);
  const found = container(context.url);
  if (!lines || !found) return null;
  const [prefix, store, credentials] = found;
  const group = context.group.path === "/" ? "" : `, group=${quoted(context.group.path.slice(1))}`;
  return text("import icechunk, xarray as xr", lines, "",
    `prefix = ${quoted(prefix)}`, "config = icechunk.RepositoryConfig.default()", `config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, ${store}))`,
    "repository = icechunk.Repository.create(", '    icechunk.local_filesystem_storage("repository"), config=config,',
    `    authorize_virtual_chunk_access=icechunk.containers_credentials({prefix: ${credentials}}),`, ")",
    'session = repository.writable_session("main")', `vds.vz.to_icechunk(session.store${group})`, 'session.commit("Virtual references")', "",
    `ds = xr.open_zarr(repository.readonly_session("main").store, consolidated=False${group})`, "print(ds)");
}
