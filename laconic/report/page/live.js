// Asks once a second how the run stands, until it has ended; then the last state stays.
(() => {
  const now = document.getElementById("now");
  const ask = async () => {
    try {
      const reply = await fetch("now", { cache: "no-store" });
      if (!reply.ok) throw new Error(String(reply.status));
      const focus = document.activeElement && document.activeElement.getAttribute("aria-label");
      now.innerHTML = await reply.text();
      const again = focus && now.querySelector(`[aria-label="${CSS.escape(focus)}"]`);
      if (again) again.focus({ preventScroll: true });
      if (document.getElementById("state").dataset.ended === "yes") return;
    } catch {
      document.getElementById("state").textContent = "The command has ended; this is the last that was heard of it.";
      return;
    }
    setTimeout(ask, 1000);
  };
  if (document.getElementById("state").dataset.ended === "no") setTimeout(ask, 500);
})();
