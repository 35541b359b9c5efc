%% Erlang's side of the oracle: reads scripts, has actors act them, and tells after each step how everybody is.
%%
%% One script a line in (script.rs), one trace a line out (trace.rs). One scheduler runs it (erl +S 1), so whoever was sent
%% a signal before the driver looked at it has handled that signal first.
-module(oracle).
-export([main/0]).

-define(NAMES, [n0, n1, n2]).

main() ->
    Port = open_port({fd, 0, 1}, [in, out, binary, eof, {line, 1000000}]),
    serve(Port).

serve(Port) ->
    receive
        {Port, {data, {eol, Line}}} ->
            port_command(Port, [play(Line), $\n]),
            serve(Port);
        {Port, eof} ->
            halt()
    end.

%% The driver: one step after the other, each until all is quiet.
play(Line) ->
    ets:new(cast, [named_table, public]),
    Root = spawn(fun actor/0),
    enrol(0, Root),
    {Steps, Live} = lists:mapfoldl(fun step/2, #{0 => monitor(process, Root)}, parse(Line)),
    maps:foreach(fun(Actor, Reference) -> exit(pid(Actor), kill), receive {'DOWN', Reference, _, _, _} -> ok end end, Live),
    ets:delete(cast),
    erase(),
    lists:join($;, Steps).

step(Orders, Live) ->
    Asked = [{Number, Actor, Operation} || {Number, Actor, Operation} <- Orders, is_map_key(Actor, Live)],
    [pid(Actor) ! {order, self(), Number, Operation} || {Number, Actor, Operation} <- Asked],
    Results = [{Number, result(Number, maps:get(Actor, Live))} || {Number, Actor, _} <- Asked],
    Known = lists:foldl(fun enlist/2, Live, [child(Operation) || {_, _, Operation} <- Asked]),
    {States, Left} = settle(Known),
    Lines = [[$r, integer_to_list(Number), $=, Result] || {Number, Result} <- Results]
        ++ [[atom_to_list(Name), $=, holder(whereis(Name))] || Name <- ?NAMES]
        ++ [[$a, integer_to_list(Actor), $=, State] || {Actor, State} <- States, changed(Actor, State)],
    {lists:join($\s, Lines), Left}.

%% The end of an actor is left in the mailbox for whoever looks for it next.
result(Number, Reference) ->
    receive
        {done, Number, Result} -> Result;
        {'DOWN', Reference, _, _, _} = Down -> self() ! Down, "-"
    end.

child([Spawn, Child]) when Spawn =:= <<"spawn">>; Spawn =:= <<"spawn_link">>; Spawn =:= <<"spawn_monitor">> -> number(Child);
child(_) -> none.

enlist(none, Live) -> Live;
enlist(Child, Live) ->
    case pid(Child) of
        none -> Live;
        Pid -> Live#{Child => monitor(process, Pid)}
    end.

%% Looks at everybody until nobody has ended since the look before.
settle(Live) ->
    Looks = [{Actor, look(Actor, Reference)} || {Actor, Reference} <- lists:sort(maps:to_list(Live))],
    case [Actor || {Actor, {ended, _}} <- Looks] of
        [] -> {Looks, Live};
        Ended ->
            {States, Left} = settle(maps:without(Ended, Live)),
            {[{Actor, [$!, reason(Reason)]} || {Actor, {ended, Reason}} <- Looks] ++ States, Left}
    end.

look(Actor, Reference) ->
    case process_info(pid(Actor), [links, monitors, monitored_by, messages]) of
        undefined ->
            receive {'DOWN', Reference, _, _, Reason} -> {ended, Reason} end;
        [{links, Links}, {monitors, Monitors}, {monitored_by, MonitoredBy}, {messages, Mail}] ->
            lists:join($|, [
                actors(Links),
                actors([Pid || {process, Pid} <- Monitors]),
                actors(lists:delete(self(), MonitoredBy)),
                lists:join($,, [entry(Message) || Message <- Mail])
            ])
    end.

changed(Actor, State) -> put({state, Actor}, State) =/= State.

entry({message, From, Number}) -> io_lib:format("m.~b.~b", [From, Number]);
entry({'EXIT', From, Reason}) -> ["e.", holder(From), $., reason(Reason)];
entry({'DOWN', Reference, process, From, Reason}) ->
    ["d.", holder(From), $., reason(Reason), $., integer_to_list(ets:lookup_element(cast, Reference, 2))].

actors(Pids) -> lists:join($,, lists:sort([holder(Pid) || Pid <- Pids])).

holder(undefined) -> "-";
holder(Pid) -> integer_to_list(ets:lookup_element(cast, Pid, 2)).

reason(Reason) when is_atom(Reason) -> atom_to_list(Reason);
reason(Reason) -> io_lib:format("~0p", [Reason]).

%% The cast: actors by their numbers, and back; references of monitors likewise.
enrol(Actor, Pid) -> ets:insert(cast, [{Actor, Pid}, {Pid, Actor}]).

pid(Actor) ->
    case ets:lookup(cast, Actor) of
        [{_, Pid}] -> Pid;
        [] -> none
    end.

%% An actor: receives nothing but its orders, so that all else stays in the mailbox to be looked at.
actor() ->
    receive
        {order, Driver, Number, [Verb | Arguments]} ->
            Result = act(Verb, Arguments, Number),
            %% Lets a signal to oneself, as of a link to the dead, take effect.
            self() ! {heard, Number},
            receive {heard, Number} -> ok end,
            Driver ! {done, Number, Result},
            actor()
    end.

act(<<"spawn">>, [Child], _) -> enrol(number(Child), spawn(fun actor/0)), "ok";
act(<<"spawn_link">>, [Child], _) -> enrol(number(Child), spawn_link(fun actor/0)), "ok";
act(<<"spawn_monitor">>, [Child], Number) ->
    {Pid, Reference} = spawn_monitor(fun actor/0),
    enrol(number(Child), Pid),
    monitors(Number, Reference);
act(<<"demonitor">>, [Monitor], _) -> demonitored(Monitor, [info]);
act(<<"flush">>, [Monitor], _) -> demonitored(Monitor, [flush, info]);
act(<<"trap">>, [Trap], _) -> atom_to_list(process_flag(trap_exit, binary_to_atom(Trap)));
act(<<"end">>, [Why], _) -> exit(binary_to_atom(Why));
act(<<"unregister">>, [Name], _) -> succeeds(fun() -> unregister(binary_to_atom(Name)) end);
act(<<"send_by_name">>, [Name], Number) -> succeeds(fun() -> binary_to_atom(Name) ! message(Number) end);
act(Verb, [Actor | Arguments], Number) ->
    case pid(number(Actor)) of
        none -> "nobody";
        Pid -> act_on(Verb, Pid, Arguments, Number)
    end.

act_on(<<"link">>, Pid, [], _) ->
    %% The error of a link to the dead stands for the exit signal, and ends who does not trap exits just so.
    try link(Pid) of
        true -> "ok"
    catch
        error:noproc -> exit(noproc)
    end;
act_on(<<"unlink">>, Pid, [], _) -> unlink(Pid), "ok";
act_on(<<"monitor">>, Pid, [], Number) -> monitors(Number, monitor(process, Pid));
act_on(<<"await_end">>, Pid, [Name], _) ->
    Reference = monitor(process, Pid),
    receive {'DOWN', Reference, _, _, _} -> holder(whereis(binary_to_atom(Name))) after 60000 -> "nothing" end;
act_on(<<"send">>, Pid, [], Number) -> Pid ! message(Number), "ok";
act_on(<<"exit">>, Pid, [Why], _) -> exit(Pid, binary_to_atom(Why)), "ok";
act_on(<<"register">>, Pid, [Name], _) -> succeeds(fun() -> register(binary_to_atom(Name), Pid) end).

message(Number) -> {message, ets:lookup_element(cast, self(), 2), Number}.

monitors(Number, Reference) ->
    put(Number, Reference),
    ets:insert(cast, {Reference, Number}),
    "ok".

demonitored(Monitor, Options) ->
    case get(number(Monitor)) of
        undefined -> "nothing";
        Reference -> atom_to_list(demonitor(Reference, Options))
    end.

succeeds(Call) ->
    try Call() of
        _ -> "ok"
    catch
        error:badarg -> "no"
    end.

number(Digits) -> binary_to_integer(Digits).

parse(Line) ->
    [[order(Order) || Order <- binary:split(Step, <<",">>, [global])] || Step <- binary:split(Line, <<";">>, [global])].

order(Order) ->
    [Number, Actor | Operation] = binary:split(Order, <<" ">>, [global]),
    {number(Number), number(Actor), Operation}.
