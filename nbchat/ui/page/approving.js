// A tool call that waits for a person's word: the buttons on its card

function addDecision(card) {
  if (!card.dataset.ticket) return;
  card.open = true;
  const tool = card.querySelector(".nbc-tool-name").textContent;
  const always = `Let this call run, and every later one of ${tool} in this session`;
  card.append(
    tag(
      "div",
      "nbc-decision",
      { role: "group", "aria-label": `May ${tool} run?` },
      button("nbc-primary nbc-approve", "Approve", "Let this call run"),
      button("nbc-deny", "Deny", "Do not let it run; the model is told"),
      button("nbc-always", "Always in this session", always),
    ),
  );
}

function waitingText(waiting) {
  const [first, ...others] = waiting;
  if (!first) return "";
  return others.length ? `${count(waiting.length)} tools wait for you` : `${first.tool} waits for you`;
}

// The card's title keeps the focus: the buttons are gone a moment later.
function closeDecision(card) {
  card.querySelector("summary").focus({ preventScroll: true });
  for (const choice of card.querySelectorAll(".nbc-decision button")) choice.disabled = true;
}
