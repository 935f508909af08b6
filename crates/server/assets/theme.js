// Runs before the first paint, so that the page does not flash: the theme that was chosen here before.
"use strict";
try {
  const theme = localStorage.getItem("virtualize.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be closed to the page; then the system's choice holds.
}
