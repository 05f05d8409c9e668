/** Clients of the daemon that served this page. The browser sends the cookie of its session. */
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AdminService } from "../../gen/toold/v1/admin_service_pb.ts";
import { CallService } from "../../gen/toold/v1/call_service_pb.ts";
import { DocumentService } from "../../gen/toold/v1/document_service_pb.ts";
import { ToolService } from "../../gen/toold/v1/tool_service_pb.ts";

// Without useBinaryFormat the messages would be JSON, which is larger and slower.
const transport = createConnectTransport({ baseUrl: location.origin, useBinaryFormat: true });

export const calls = createClient(CallService, transport);
export const tools = createClient(ToolService, transport);
export const documents = createClient(DocumentService, transport);
export const admin = createClient(AdminService, transport);
