/* Answers to requests of HTTP: the world `rusm:http/service`. Each request has a process of its own.
 *
 *   #include "rusm_http.h"
 *
 *   rusm_response handle(rusm_request request) {
 *       return (rusm_response){.status = 200, .body = request.target};
 *   }
 *
 * Compile it together with rusm.c and rusm_http.c, and link it with `wasm-component-ld`, as `rusm new --http c` shows. It has no
 * function `run`. All other functions of rusm.h can be called.
 *
 * Memory: the request, and what the node returns after it, is valid until `handle` returns. `rusm_receive` keeps the
 * request.
 */
#ifndef RUSM_HTTP_H
#define RUSM_HTTP_H

#include "rusm.h"

typedef struct {
    rusm_bytes name, value;
} rusm_field;

typedef struct {
    const rusm_field *at;
    uint32_t len;
} rusm_fields;

typedef struct {
    rusm_bytes method;
    rusm_bytes target; /* path and query */
    rusm_fields headers;
    rusm_bytes body;
    rusm_bytes peer; /* address of the client, with its port */
} rusm_request;

typedef struct {
    uint16_t status;
    rusm_fields headers;
    rusm_bytes body;
} rusm_response;

/* Answers one request. The guest defines this function. */
rusm_response handle(rusm_request request);

/* Finds a header by its name in lower case; returns false if there is none. */
bool rusm_header(const rusm_request *request, rusm_bytes name, rusm_bytes *value);

/* ---- Responses that go on while the guest writes them ---- */

/* Sends the head; what `handle` returns later is not sent. Returns false if this request has a response already. */
bool rusm_start(uint16_t status, rusm_fields headers);
/* Sends a part of the body, and waits while the client is slower; returns false once the client has gone. */
bool rusm_write(rusm_bytes part);

/* ---- WebSockets: the connection of the request; it ends when `handle` returns ---- */

/* Upgrades the connection. Returns false if that is not possible, and sets `why`; the client was told. */
bool rusm_accept(rusm_bytes *why);

typedef struct {
    enum : uint8_t { RUSM_SOCKET_MESSAGE, RUSM_SOCKET_TIMEOUT, RUSM_SOCKET_CLOSED } kind;
    _Alignas(4) bool binary;
    rusm_bytes body; /* set, like `binary`, for a message */
} rusm_socket_event;

/* Waits for a message, at most for a time; RUSM_FOREVER has no limit. Returns false once the client has gone. A message is
 * valid until the next call. */
bool rusm_socket_receive(rusm_socket_event *event, uint64_t timeout_ms);
/* Sends a message; returns false once the client has gone. */
bool rusm_socket_send(rusm_bytes body, bool binary);
/* Closes the connection with a code of RFC 6455, such as 1000. */
void rusm_socket_close(uint16_t code, rusm_bytes reason);

#endif
