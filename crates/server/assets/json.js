// JSON with exact integers: those that a JavaScript number cannot represent become BigInt.

export function parseJson(text) {
  return JSON.parse(text, (_, value, context) => {
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
