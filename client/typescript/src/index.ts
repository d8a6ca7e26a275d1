/** The client of assayd for Node: every operation of the reference, typed, over the daemon's Unix socket. */
import createClient, { type Client } from "openapi-fetch";
import { Agent, fetch as fetchBy, type RequestInit } from "undici";

import type { components, paths } from "./schema.js";

export type { components, paths };
export type Attempt = components["schemas"]["Attempt"];
export type Assayd = Client<paths>;

/** Where a daemon usually listens, unless ASSAY_SOCKET names another place. */
export const SYSTEM_SOCKET = "/run/assayd/assayd.sock";

/** Return a client; its answers have `data`, or `error` in the form of the daemon's refusals. */
export function connect(socketPath = process.env.ASSAY_SOCKET ?? SYSTEM_SOCKET): Assayd {
  const dispatcher = new Agent({ connect: { socketPath }, headersTimeout: 660_000, bodyTimeout: 660_000 });
  const send = async (request: Request): Promise<Response> => {
    const init: RequestInit = {
      method: request.method,
      headers: Object.fromEntries(request.headers),
      body: request.body === null ? null : new Uint8Array(await request.arrayBuffer()),
      dispatcher,
    };
    return (await fetchBy(request.url, init)) as unknown as Response;
  };
  return createClient<paths>({ baseUrl: "http://assayd", fetch: send });
}
