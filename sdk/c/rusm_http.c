/* Implements rusm_http.h on the imports of the world `rusm:http/service`, and the world's export `handle`. */
#include "rusm_http.h"

#define FROM(interface, name) __attribute__((import_module("rusm:http/" interface "@0.1.0"), import_name(name))) extern
#define TEXT const char *at, uint32_t len
#define OF(bytes) (bytes).at, (bytes).len

_Static_assert(sizeof(rusm_response) == 20 && offsetof(rusm_response, headers) == 4, "the layout of the canonical ABI");
_Static_assert(sizeof(rusm_socket_event) == 16 && offsetof(rusm_socket_event, binary) == 4, "the layout of the canonical ABI");

FROM("streaming", "start") bool streaming_start(uint32_t status, const rusm_field *headers, uint32_t count);
FROM("streaming", "write") bool streaming_write(TEXT);
FROM("websocket", "receive") void websocket_receive(uint32_t limited, uint64_t timeout_ms, rusm_socket_event *);
FROM("websocket", "send") bool websocket_send(uint32_t binary, TEXT);
FROM("websocket", "close") void websocket_close(uint32_t code, TEXT);

typedef struct {
    bool failed;
    rusm_bytes why;
} accepted;

FROM("websocket", "accept") void websocket_accept(accepted *);

/* ---- The export: the parts of the request are passed as separate numbers ---- */

static rusm_response response;
static rusm_mark request_end;

__attribute__((export_name("rusm:http/handler@0.1.0#handle")))
const rusm_response *rusm_handle(TEXT, const char *target, uint32_t target_len, const rusm_field *headers, uint32_t count,
    const char *body, uint32_t body_len, const char *peer, uint32_t peer_len) {
    request_end = rusm_keep();
    response = handle((rusm_request){{at, len}, {target, target_len}, {headers, count}, {body, body_len}, {peer, peer_len}});
    return &response;
}

/* Called after the node has read the response: the next request begins with an empty arena. */
__attribute__((export_name("cabi_post_rusm:http/handler@0.1.0#handle")))
void rusm_handled(const rusm_response *read) { rusm_forget(0); }

/* ---- Calls ---- */

bool rusm_header(const rusm_request *request, rusm_bytes name, rusm_bytes *value) {
    for (uint32_t i = 0; i < request->headers.len; i++) {
        if (!rusm_equal(request->headers.at[i].name, name)) continue;
        *value = request->headers.at[i].value;
        return true;
    }
    return false;
}

bool rusm_start(uint16_t status, rusm_fields headers) { return streaming_start(status, OF(headers)); }
bool rusm_write(rusm_bytes part) { return streaming_write(OF(part)); }

bool rusm_accept(rusm_bytes *why) {
    accepted result;
    websocket_accept(&result);
    if (result.failed && why) *why = result.why;
    return !result.failed;
}

bool rusm_socket_receive(rusm_socket_event *event, uint64_t timeout_ms) {
    rusm_forget(request_end);
    websocket_receive(timeout_ms != RUSM_FOREVER, timeout_ms, event);
    return event->kind != RUSM_SOCKET_CLOSED;
}

bool rusm_socket_send(rusm_bytes body, bool binary) { return websocket_send(binary, OF(body)); }
void rusm_socket_close(uint16_t code, rusm_bytes reason) { websocket_close(code, OF(reason)); }
