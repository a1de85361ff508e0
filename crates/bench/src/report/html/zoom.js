// Lets each chart be shown as large as the window. Everything can be read without it.
for (const figure of document.querySelectorAll("figure")) {
  const caption = figure.querySelector("figcaption");
  const title = caption.textContent;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Enlarge";
  button.setAttribute("aria-label", "Enlarge the chart: " + title);
  button.addEventListener("click", () => {
    const dialog = document.createElement("dialog");
    const close = document.createElement("button");
    close.type = "button";
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    const chart = figure.querySelector("svg").cloneNode(true);
    const heading = document.createElement("p");
    heading.textContent = title;
    dialog.append(close, heading, chart);
    dialog.addEventListener("close", () => { dialog.remove(); button.focus(); });
    document.body.append(dialog);
    dialog.showModal();
  });
  caption.append(button);
}
