// Approval of tool calls: the buttons on a call's card

import { button, count, tag } from "./dom.js";

export function addDecision(card) {
  if (!card.dataset.ticket) return;
  card.open = true;
  const tool = card.querySelector(".nbc-tool-name").textContent;
  const always = `Run this call, and approve every later ${tool} call in this session`;
  card.append(
    tag(
      "div",
      "nbc-decision",
      { role: "group", "aria-label": `Run ${tool}?` },
      button("nbc-primary nbc-approve", "Approve", "Run this call"),
      button("nbc-deny", "Deny", "Do not run this call; the model sees that you denied it"),
      button("nbc-always", "Approve for this session", always),
    ),
  );
}

export function waitingText(waiting) {
  const [first, ...others] = waiting;
  if (!first) return "";
  return others.length ? `${count(waiting.length)} tool calls are waiting for your approval` : `${first.tool} is waiting for your approval`;
}

export class Decisions {
  constructor(panel) {
    this.panel = panel;
    panel.parts.root.addEventListener("click", (event) => this.clicked(event));
  }

  clicked(event) {
    const choice = event.target.closest?.(".nbc-decision button");
    if (!choice || this.panel.isGone) return;
    const card = choice.closest(".nbc-tool");
    closeDecision(card);
    if (choice.matches(".nbc-deny")) this.deny(card.dataset.ticket);
    else this.approve(card.dataset.ticket, choice.matches(".nbc-always"));
  }

  approve(ticket, always) {
    this.panel.send({ type: "approve", ticket, always });
    this.panel.server.post("approve", { call_id: ticket, always });
  }

  deny(ticket) {
    this.panel.send({ type: "deny", ticket });
    this.panel.server.post("deny", { call_id: ticket });
  }
}

// Focus the card's title: the buttons are removed a moment later.
function closeDecision(card) {
  card.querySelector("summary").focus({ preventScroll: true });
  for (const choice of card.querySelectorAll(".nbc-decision button")) choice.disabled = true;
}
