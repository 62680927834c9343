// What can be done with a block of code

function addCopyButtons(root) {
  for (const block of root.querySelectorAll(".nbc-md pre")) {
    const language = tag("span", "nbc-language", {}, block.dataset.language ?? "");
    const copy = button("nbc-copy", "Copy", "Copy the code");
    const box = tag("div", "nbc-codebox", {}, tag("div", "nbc-codebar", {}, language, copy));
    block.replaceWith(box);
    box.append(block);
  }
}

async function copyClicked(event) {
  const copy = event.target.closest?.(".nbc-copy");
  if (!copy) return;
  const text = copy.closest(".nbc-codebox").querySelector("pre").textContent;
  copy.textContent = (await copyText(text)) ? "Copied" : "Press Ctrl+C";
  setTimeout(() => (copy.textContent = "Copy"), 1500);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // the clipboard API needs HTTPS, many hubs have none
  }
}

function copyBySelection(text) {
  const focused = document.activeElement;
  const area = tag("textarea", "nbc-offscreen", { "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused.focus();
  return isCopied;
}
