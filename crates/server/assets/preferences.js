// The theme and the token.
import { token } from "./api.js";
import { announce, byId, fill } from "./dom.js";

export function themeSwitch() {
  const root = document.documentElement;
  const select = byId("theme");
  select.value = root.dataset.theme ?? "system";
  select.addEventListener("change", () => {
    if (select.value === "system") delete root.dataset.theme;
    else root.dataset.theme = select.value;
    try {
      if (select.value === "system") localStorage.removeItem("virtualize.theme");
      else localStorage.setItem("virtualize.theme", select.value);
    } catch {
      // Without storage, the choice applies to this visit only.
    }
    window.dispatchEvent(new Event("themechange"));
  });
}

/** Connects the two forms for the token: in the header, and on the start page. `changed` is called with a new token. */
export function tokenForms(changed) {
  const box = byId("token-box");
  const keep = (text) => {
    token.set(text.trim());
    box.open = false;
    fill(byId("token-state"), token.get() ? "set" : "none");
    announce(token.get() ? "The token is kept for this tab." : "The token is forgotten.");
    changed();
  };
  for (const [form, input] of [["token-form", "token"], ["sign-in", "sign-in-token"]]) {
    byId(form).addEventListener("submit", (event) => {
      event.preventDefault();
      const { value } = byId(input);
      byId(input).value = "";
      keep(value);
    });
  }
  byId("token-forget").addEventListener("click", () => keep(""));
  box.addEventListener("keydown", (event) => { if (event.key === "Escape") { box.open = false; box.querySelector("summary").focus(); } });
  fill(byId("token-state"), token.get() ? "set" : "none");
}
