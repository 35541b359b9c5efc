%% Measures two Erlang nodes on this machine, as crates/cluster/examples/pair measures two rusm nodes:
%%
%%   epmd -daemon && erlc dist.erl && erl -noshell -sname a -setcookie bench -s dist main [ROUNDS]
-module(dist).
-export([main/0, main/1, echo/0, sink/1]).

-define(ROUND_TRIPS, 20000).
-define(WINDOW_MS, 3000).

main() -> main(['3']).
main([Rounds]) ->
    N = list_to_integer(atom_to_list(Rounds)),
    [calls(start()) || _ <- lists:seq(1, N)],
    [one_way(start(), S, R) || _ <- lists:seq(1, N), {S, R} <- [{1, 1}, {8, 8}, {64, 1}, {64, 64}]],
    [killed() || _ <- lists:seq(1, N)],
    halt().

%% Starts the other node, on the same machine.
start() ->
    [Host] = tl(string:split(atom_to_list(node()), "@")),
    B = list_to_atom("b@" ++ Host),
    case net_adm:ping(B) of
        pong -> B;
        pang ->
            Args = "erl -noshell -detached -sname b -setcookie bench -pa " ++ filename:dirname(code:which(?MODULE)),
            os:cmd(Args),
            wait(B)
    end.

wait(B) ->
    case net_adm:ping(B) of
        pong -> B;
        pang -> timer:sleep(50), wait(B)
    end.

echo() -> receive {From, Ref, Payload} -> From ! {Ref, Payload}, echo() end.

sink(Count) ->
    receive
        {From, Ref, count} -> From ! {Ref, Count};
        _ -> sink(Count + 1)
    end.

calls(B) ->
    Echo = spawn(B, ?MODULE, echo, []),
    Payload = binary:copy(<<0>>, 64),
    Times = lists:sort([call(Echo, Payload) || _ <- lists:seq(1, ?ROUND_TRIPS)]),
    At = fun(PerMille) -> lists:nth(?ROUND_TRIPS * PerMille div 1000, Times) / 1000 end,
    io:format("erlang call, 64 B                  ~10.1f ~10.1f ~10.1f~n", [At(500), At(990), At(999)]).

call(Echo, Payload) ->
    Ref = make_ref(),
    Start = erlang:monotonic_time(nanosecond),
    Echo ! {self(), Ref, Payload},
    receive {Ref, _} -> erlang:monotonic_time(nanosecond) - Start end.

one_way(B, Senders, Receivers) ->
    Sinks = [spawn(B, ?MODULE, sink, [0]) || _ <- lists:seq(1, Receivers)],
    Over = atomics:new(1, []),
    Me = self(),
    Payload = binary:copy(<<0>>, 64),
    Start = erlang:monotonic_time(nanosecond),
    [spawn(fun() -> Me ! {sent, send(lists:nth(I rem Receivers + 1, Sinks), Payload, Over, 0)} end)
     || I <- lists:seq(1, Senders)],
    timer:sleep(?WINDOW_MS),
    atomics:put(Over, 1, 1),
    Sent = lists:sum([receive {sent, N} -> N end || _ <- lists:seq(1, Senders)]),
    Received = lists:sum([begin Ref = make_ref(), S ! {self(), Ref, count}, receive {Ref, N} -> N end end || S <- Sinks]),
    Seconds = (erlang:monotonic_time(nanosecond) - Start) / 1.0e9,
    io:format("erlang ~w senders to ~w receivers~*s~10.1f k msg/s, ~w lost~n",
              [Senders, Receivers, 8, "", Received / Seconds / 1000, Sent - Received]).

send(To, Payload, Over, Count) ->
    case atomics:get(Over, 1) of
        1 -> Count;
        0 -> To ! Payload, send(To, Payload, Over, Count + 1)
    end.

killed() ->
    B = start(),
    Pid = rpc:call(B, os, getpid, []),
    Echo = spawn(B, ?MODULE, echo, []),
    Ref = monitor(process, Echo),
    _ = call(Echo, <<>>),
    Start = erlang:monotonic_time(nanosecond),
    os:cmd("kill -9 " ++ Pid),
    receive {'DOWN', Ref, process, Echo, noconnection} -> ok end,
    io:format("erlang noconnection after kill -9  ~10.2f ms~n", [(erlang:monotonic_time(nanosecond) - Start) / 1.0e6]).
