
"use strict";
(() => {
  const search = document.getElementById("search");
  if (!search) return;
  const cards = [...document.querySelectorAll(".card")];
  const texts = cards.map((card) => card.textContent.toLowerCase());
  const found = document.getElementById("found");
  const nothing = document.getElementById("nothing");
  const dialog = document.getElementById("detail");
  const body = document.getElementById("detail-body");
  let shown = cards;
  let at = -1;

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = cards.filter((card, i) => {
      const fits = words.every((word) => texts[i].includes(word));
      card.hidden = !fits;
      return fits;
    });
    found.textContent = `${shown.length.toLocaleString("en")} shown`;
    nothing.hidden = shown.length > 0;
  };

  const open = (i) => {
    const card = shown[i];
    if (!card) return;
    at = i;
    document.getElementById("detail-key").textContent = card.querySelector(".key").textContent;
    const fields = card.querySelector("dl").cloneNode(true);
    fields.hidden = false;
    const image = card.querySelector("img");
    body.replaceChildren(...(image ? [image.cloneNode(true)] : []), fields);
    document.getElementById("previous").disabled = i === 0;
    document.getElementById("next").disabled = i === shown.length - 1;
    if (!dialog.open) dialog.showModal();
    body.scrollTop = 0;
  };

  search.addEventListener("input", filter);
  cards.forEach((card) => card.querySelector(".open").addEventListener("click", () => open(shown.indexOf(card))));
  document.getElementById("close").addEventListener("click", () => dialog.close());
  document.getElementById("previous").addEventListener("click", () => open(at - 1));
  document.getElementById("next").addEventListener("click", () => open(at + 1));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => { if (shown[at]) shown[at].querySelector(".open").focus(); });
  document.addEventListener("keydown", (event) => {
    if (dialog.open && event.key === "ArrowLeft") open(at - 1);
    else if (dialog.open && event.key === "ArrowRight") open(at + 1);
    else if (!dialog.open && event.key === "/" && document.activeElement !== search) {
      event.preventDefault();
      search.focus();
    }
  });
  filter();
})();
