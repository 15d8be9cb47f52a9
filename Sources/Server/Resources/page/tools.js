// The functions that the page offers to the agent. They run in the browser.

export const tools = {
  get_time: {
    title: "Tell the time",
    description: "The date and the time where the user is.",
    parameters: { type: "object", properties: {} },
    run() {
      const now = new Date();
      const time = now.toLocaleTimeString("en", { hour: "numeric", minute: "2-digit" });
      return `It is ${time} on ${now.toLocaleDateString("en", { weekday: "long" })}.`;
    },
  },
  set_theme: {
    title: "Change the colours",
    description: "Makes the page light or dark.",
    parameters: {
      type: "object", properties: { theme: { type: "string", enum: ["light", "dark"] } },
      required: ["theme"],
    },
    run({ theme }) {
      if (!["light", "dark"].includes(theme)) throw new Error("The theme is light or dark.");
      document.documentElement.dataset.theme = theme;
      return `The page is ${theme} now.`;
    },
  },
};
