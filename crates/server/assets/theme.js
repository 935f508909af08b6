// Applies the theme chosen on an earlier visit, before the first paint, so that the page does not flash.
"use strict";
try {
  const theme = localStorage.getItem("virtualize.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be unavailable; then the system's theme applies.
}
