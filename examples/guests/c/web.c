/* Answers requests of HTTP as the guest `sockets` in Rust does: text, the request's body, events, and a WebSocket. */
#include "rusm_http.h"

static const rusm_field plain = {{"content-type", 12}, {"text/plain; charset=utf-8", 25}};
static const rusm_field event_stream = {{"content-type", 12}, {"text/event-stream", 17}};

static rusm_response events(void) {
    rusm_start(200, (rusm_fields){&event_stream, 1});
    for (int64_t number = 1; number <= 3; number++) {
        rusm_line line = {0};
        rusm_put(&line, RUSM("id: "));
        rusm_put_number(&line, number);
        rusm_put(&line, RUSM("\ndata: event "));
        rusm_put_number(&line, number);
        rusm_put(&line, RUSM("\n\n"));
        if (!rusm_write(rusm_text(&line))) break;
    }
    return (rusm_response){0};
}

/* Echoes messages, and says `tick` when none comes for a second. */
static rusm_response talk(void) {
    rusm_socket_event event;
    if (!rusm_accept(NULL)) return (rusm_response){0};
    while (rusm_socket_receive(&event, 1000)) {
        if (event.kind == RUSM_SOCKET_TIMEOUT) {
            rusm_socket_send(RUSM("tick"), false);
        } else if (rusm_equal(event.body, RUSM("bye"))) {
            rusm_socket_close(4000, RUSM("goodbye"));
        } else {
            rusm_socket_send(event.body, event.binary);
        }
    }
    return (rusm_response){0};
}

static rusm_response hello(const rusm_request *request) {
    static rusm_line line;
    rusm_bytes host = RUSM("nobody");
    rusm_header(request, RUSM("host"), &host);
    line.len = 0;
    rusm_put(&line, request->method);
    rusm_put(&line, RUSM(" "));
    rusm_put(&line, request->target);
    rusm_put(&line, RUSM(" from "));
    rusm_put(&line, host);
    rusm_put(&line, RUSM("\n"));
    return (rusm_response){200, {&plain, 1}, rusm_text(&line)};
}

rusm_response handle(rusm_request request) {
    static const rusm_field wrong = {{"a b", 3}, {"c", 1}};
    static const rusm_bytes status = {"/status/", 8};
    int64_t number;
    if (rusm_equal(request.target, RUSM("/echo"))) return (rusm_response){.status = 200, .body = request.body};
    if (rusm_equal(request.target, RUSM("/events"))) return events();
    if (rusm_equal(request.target, RUSM("/socket"))) return talk();
    if (rusm_equal(request.target, RUSM("/trap"))) __builtin_trap();
    if (rusm_equal(request.target, RUSM("/wrong"))) return (rusm_response){200, {&wrong, 1}, {0}};
    if (rusm_starts_with(request.target, status)) {
        rusm_bytes rest = {request.target.at + status.len, request.target.len - status.len};
        if (rusm_number(rest, &number)) return (rusm_response){.status = (uint16_t)number};
    }
    return hello(&request);
}
