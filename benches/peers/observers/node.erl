%% Processes of Erlang for observer_cli: `node:main([N])` starts N that wait and 16 that tick.
-module(node).
-export([main/1]).

main([Count]) ->
    [spawn(fun tick/0) || _ <- lists:seq(1, 16)],
    start(list_to_integer(Count)),
    io:format("ready~n"),
    receive stop -> ok end.

start(0) -> ok;
start(N) ->
    spawn(fun() -> receive stop -> ok end end),
    start(N - 1).

tick() ->
    receive after 10 -> tick() end.
