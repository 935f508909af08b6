// JSON whose whole numbers are exact: those that a JavaScript number does not hold become BigInt.

export function parseJson(text) {
  return JSON.parse(text, (_, value, context) => {
    const inexact = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return inexact && context?.source && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  });
}

/** As it stood in the file: whole numbers of any size, text in quotes; one line, or indented. */
export function show(value, indent = 0, depth = 0) {
  if (typeof value === "bigint") return String(value);
  // Whole numbers of that size are floats: all of their digits would claim too much.
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
