import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  // The policy of the pages allows no inline scripts, styles or fonts.
  build: { target: "es2023", assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 1000 },
  worker: { format: "es" },
});
