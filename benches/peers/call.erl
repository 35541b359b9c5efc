%% Measures gen_server:call between two processes with one call in flight, in calls per second.
%%
%%   erlc call.erl && erl -noshell -s call main [SECONDS]
-module(call).
-behaviour(gen_server).
-export([main/0, main/1, init/1, handle_call/3, handle_cast/2]).

main() -> main(['1']).
main([Seconds]) ->
    Window = list_to_integer(atom_to_list(Seconds)) * 1000000000,
    {ok, Server} = gen_server:start(?MODULE, [], []),
    _ = run(Server, 1000000000),
    {_, Before} = cpu(),
    {Calls, Time} = run(Server, Window),
    {_, After} = cpu(),
    io:format("beam\tcall\tops_per_s=~w\tcpu_ns_per_op=~w~n",
              [round(Calls * 1.0e9 / Time), round((After - Before) * 1.0e6 / Calls)]),
    halt().

cpu() -> {T, _} = statistics(runtime), {ok, T}.

run(Server, Window) -> run(Server, 0, erlang:monotonic_time(nanosecond), Window).
run(Server, N, Start, Window) ->
    batch(Server, N, 256),
    case erlang:monotonic_time(nanosecond) - Start of
        Time when Time >= Window -> {N + 256, Time};
        _ -> run(Server, N + 256, Start, Window)
    end.

batch(_, _, 0) -> ok;
batch(Server, N, Left) ->
    M = N + 1,
    M = gen_server:call(Server, {next, N}),
    batch(Server, M, Left - 1).

init([]) -> {ok, none}.
handle_call({next, N}, _, State) -> {reply, N + 1, State}.
handle_cast(_, State) -> {noreply, State}.
