// The dialog to choose when and how the conversation is compacted

import { Dialog } from "./dialog.js";
import { button, on, pressedIn, setDisabled, tag } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

export class PolicyDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Compaction policy", className: "nbc-policies" });
    this.list = tag("ul", "nbc-model-list", { "aria-label": "Policies" });
    this.content.append(this.list);
    on(this.list, "click", (event) => {
      const chosen = pressedIn(event, "button");
      if (chosen) this.choose(chosen.dataset.name);
    });
  }

  draw() {
    if (!this.isOpen) return;
    const { policies = [], policy, is_busy: isBusy } = this.panel.state;
    const about = new Map(policies.map((known) => [known.name, known.about]));
    const names = /** @type {string[]} */ ([...new Set([...about.keys(), policy])].filter(Boolean));
    const rows = names.map((name) => policyRow(name, policy, about.get(name) ?? ""));
    this.keepFocus(() => {
      if (names.join() !== this.drawn?.join() || policy !== this.shown) this.list.replaceChildren(...rows);
      setDisabled(this.list, "button", isBusy || this.panel.isGone);
    });
    this.drawn = names;
    this.shown = policy;
  }

  /** @param {string} [name] */
  choose(name) {
    this.close();
    this.panel.command(`/policy ${name}`);
  }
}

/** @param {string} name @param {string | undefined} current @param {string} about */
function policyRow(name, current, about) {
  const chosen = button("nbc-model-name", name, `Use the policy ${name}`);
  chosen.dataset.name = name;
  if (name === current) chosen.setAttribute("aria-current", "true");
  return tag("li", "", {}, chosen, tag("span", "nbc-choice-about", {}, about));
}
