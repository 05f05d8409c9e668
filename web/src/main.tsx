import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/screens.css";
import "./style/narrow.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App.tsx";
import "./theme.ts";

const queries = new QueryClient({ defaultOptions: { queries: { staleTime: 5000, retry: 2 }, mutations: { retry: false } } });

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
