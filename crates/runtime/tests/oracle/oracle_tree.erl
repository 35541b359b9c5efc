%% Erlang's side of the oracle about supervisors: reads trees and deeds, does them, and tells after each how the tree is.
%%
%% One script a line in (tree_script.rs), one trace a line out, as the other side writes it (tree_stage.rs).
-module(oracle_tree).
-export([main/0, init/1, start/2, start_one/2, child/3]).

main() ->
    Port = open_port({fd, 0, 1}, [in, out, binary, eof, {line, 1000000}]),
    process_flag(trap_exit, true),
    serve(Port).

serve(Port) ->
    receive
        {Port, {data, {eol, Line}}} ->
            port_command(Port, [play(Line), $\n]),
            serve(Port);
        {Port, eof} ->
            halt()
    end.

play(Line) ->
    ets:new(tree, [named_table, public]),
    ets:insert(tree, [{events, 0}, {read, 0}, {driver, self()}]),
    [Spec | Deeds] = binary:split(Line, <<";">>, [global]),
    [Root | Children] = [binary:split(Child, <<"/">>, [global]) || Child <- binary:split(Spec, <<" ">>, [global])],
    [<<"root">>, Strategy, Intensity, Auto] = Root,
    ets:insert(tree, {children, Children}),
    Started = supervisor:start_link(?MODULE, {s, Strategy, Intensity, Auto}),
    {First, Supervisor} = case Started of
        {ok, Pid} -> {"ok", Pid};
        {error, _} -> receive {'EXIT', _, _} -> {"failed", none} end
    end,
    Steps = [state(First, Supervisor) | [state(deed(Deed, Supervisor), Supervisor) || Deed <- Deeds]],
    end_of(Supervisor),
    [exit(Child, kill) || Child <- children()],
    ets:delete(tree),
    lists:join($;, Steps).

end_of(none) -> ok;
end_of(Supervisor) ->
    exit(Supervisor, kill),
    receive {'EXIT', Supervisor, _} -> ok end.

%% Deeds, and what they gave.
deed(Deed, Root) ->
    [First | Others] = [binary:split(Words, <<" ">>, [global]) || Words <- binary:split(Deed, <<"+">>, [global])],
    case First of
        [<<"during">>, Id, Why] -> during(Id, Why, Others, Root);
        _ -> do(First, Root)
    end.

%% Ends a child; if that has it started again, others are dealt with before that start is over.
during(Id, Why, Deeds, Root) ->
    case child_pid(Id) of
        none -> "nobody";
        Pid ->
            ets:insert(tree, {hold, Id}),
            Pid ! {'end', binary_to_atom(Why)},
            Driver = self(),
            Settler = spawn(fun() -> settle(Root, none, 0), Driver ! {settled, self()} end),
            receive
                {held, Held} ->
                    exit(Settler, kill),
                    [meanwhile(Deed, Held) || Deed <- Deeds],
                    Held ! go_on,
                    "held";
                {settled, Settler} ->
                    ets:delete(tree, hold),
                    "free"
            end
    end.

meanwhile([Verb, Id, Why], Held) ->
    case child_pid(Id) of
        none -> ok;
        Held when Verb =:= <<"exit">>, Why =/= <<"normal">> ->
            Reference = monitor(process, Held),
            exit(Held, binary_to_atom(Why)),
            receive {'DOWN', Reference, _, _, _} -> ok end;
        Held -> ok;
        Pid ->
            do([Verb, Id, Why], none),
            look(Pid)
    end.

do([<<"exit_supervisor">>, Supervisor, Why], Root) ->
    case supervisor_pid(Supervisor, Root) of
        none -> "nobody";
        Pid when Why =:= <<"kill">> ->
            References = [monitor(process, Dying) || Dying <- [Pid | [Below || {_, Below} <- below(Pid)]]],
            exit(Pid, kill),
            [receive {'DOWN', Reference, _, _, _} -> ok end || Reference <- References],
            "ok";
        Pid ->
            exit(Pid, binary_to_atom(Why)),
            "ok"
    end;
do([<<"end">>, Id, Why], _) -> tell(Id, fun(Pid) -> Pid ! {'end', binary_to_atom(Why)} end);
do([<<"exit">>, Id, Why], _) -> tell(Id, fun(Pid) -> exit(Pid, binary_to_atom(Why)) end);
do([<<"start">>, Child], Root) ->
    [Supervisor | Spec] = binary:split(Child, <<"/">>, [global]),
    asked(Supervisor, Root, fun(Pid) -> supervisor:start_child(Pid, spec(Spec)) end);
do([<<"start_one">>, Supervisor, Id], Root) ->
    asked(Supervisor, Root, fun(Pid) -> supervisor:start_child(Pid, [Id]) end);
do([<<"terminate">>, Supervisor, Id], Root) ->
    asked(Supervisor, Root, fun(Pid) -> supervisor:terminate_child(Pid, Id) end);
do([<<"terminate_one">>, Supervisor, Id], Root) ->
    case child_pid(Id) of
        none -> "nobody";
        Child -> asked(Supervisor, Root, fun(Pid) -> supervisor:terminate_child(Pid, Child) end)
    end;
do([<<"restart">>, Supervisor, Id], Root) ->
    asked(Supervisor, Root, fun(Pid) -> supervisor:restart_child(Pid, Id) end);
do([<<"delete">>, Supervisor, Id], Root) ->
    asked(Supervisor, Root, fun(Pid) -> supervisor:delete_child(Pid, Id) end);
do([<<"stop">>], none) -> "nobody";
do([<<"stop">>], Root) ->
    exit(Root, shutdown),
    "ok".

tell(Id, Tell) ->
    case child_pid(Id) of
        none -> "nobody";
        Pid -> Tell(Pid), "ok"
    end.

%% All children that ever started.
children() -> [Pid || {Pid, _} <- ets:tab2list(tree), is_pid(Pid)].

child_pid(Id) ->
    case ets:lookup(tree, {pid, Id}) of
        [{_, Pid}] -> case is_process_alive(Pid) of true -> Pid; false -> none end;
        [] -> none
    end.

asked(Supervisor, Root, Ask) ->
    case supervisor_pid(Supervisor, Root) of
        none -> "nobody";
        Pid ->
            try Ask(Pid) of
                ok -> "ok";
                {ok, _} -> "ok";
                {error, {already_started, _}} -> "already_started";
                {error, Word} when Word =/= failed, is_atom(Word) -> atom_to_list(Word);
                {error, _} -> "failed"
            catch
                exit:_ -> "gone"
            end
    end.

supervisor_pid(_, none) -> none;
supervisor_pid(<<"s">>, Root) -> alive(Root);
supervisor_pid(Id, Root) ->
    case alive(Root) of
        none -> none;
        _ ->
            try lists:keyfind(Id, 1, below(Root)) of
                {_, Pid} -> Pid;
                false -> none
            catch
                exit:_ -> none
            end
    end.

%% The supervisors below one, each before those below itself.
below(Supervisor) ->
    Children = lists:reverse(supervisor:which_children(Supervisor)),
    lists:append([[{Id, Pid} | below(Pid)] || {Id, Pid, supervisor, _} <- Children, is_pid(Pid)]).

alive(Pid) -> case is_process_alive(Pid) of true -> Pid; false -> none end.

%% How the tree is once nothing moves any more.
state(Result, none) -> [Result, " - ", events()];
state(Result, Root) ->
    Picture = settle(Root, none, 0),
    [Result, $\s, Picture, $\s, events()].

settle(Root, Before, Alike) ->
    [is_process_alive(Pid) andalso look(Pid) || Pid <- children()],
    Now = {iolist_to_binary(picture(Root)), ets:lookup(tree, events)},
    case Now =:= Before of
        true when Alike >= 2 -> element(1, Now);
        true -> settle(Root, Now, Alike + 1);
        false -> settle(Root, Now, 0)
    end.

look(Pid) ->
    Reference = monitor(process, Pid),
    Pid ! {look, self(), Reference},
    receive
        {seen, Reference} -> demonitor(Reference, [flush]);
        {'DOWN', Reference, _, _, _} -> ok
    end.

picture(Root) ->
    case is_process_alive(Root) of
        true ->
            try
                Children = supervisor:which_children(Root),
                [[$s, family(Root, Children)] | [[$\s, Id, family(Pid, supervisor:which_children(Pid))] || {Id, Pid} <- below(Root)]]
            catch
                exit:_ -> "moving"
            end;
        false ->
            Driver = ets:lookup_element(tree, driver, 2),
            case get({ended, Root}) of
                undefined when self() =/= Driver -> put({ended, Root}, ended);
                undefined -> receive {'EXIT', Root, Reason} -> put({ended, Root}, Reason), self() ! {'EXIT', Root, Reason} end;
                _ -> ok
            end,
            [$!, reason(get({ended, Root}))]
    end.

family(Supervisor, Children) ->
    Counts = supervisor:count_children(Supervisor),
    [Active, Supervisors, Workers] = [proplists:get_value(Key, Counts) || Key <- [active, supervisors, workers]],
    Names = case Children of
        [{undefined, _, _, _} | _] -> lists:sort([one(Pid) || {_, Pid, _, _} <- Children]);
        _ -> [[Id, mark(Pid)] || {Id, Pid, _, _} <- lists:reverse(Children)]
    end,
    io_lib:format("[~s]~b.~b.~b", [lists:join($,, Names), Active, Supervisors, Workers]).

one(Pid) when is_pid(Pid) -> [ets:lookup_element(tree, Pid, 2), $+];
one(restarting) -> "~".

mark(Pid) when is_pid(Pid) -> $+;
mark(undefined) -> $-;
mark(restarting) -> $~.

reason(Reason) when is_atom(Reason) -> atom_to_list(Reason);
reason(Reason) -> io_lib:format("~0p", [Reason]).

event(Words) -> ets:insert(tree, {{event, ets:update_counter(tree, events, 1)}, iolist_to_binary(Words)}).

events() ->
    [{_, From}] = ets:lookup(tree, read),
    [{_, To}] = ets:lookup(tree, events),
    ets:insert(tree, {read, To}),
    lists:join($,, [ets:lookup_element(tree, {event, Number}, 2) || Number <- lists:seq(From + 1, To)]).

%% Supervisors.
init({Name, Strategy, Intensity, Auto}) ->
    [{_, Children}] = ets:lookup(tree, children),
    Flags = #{strategy => binary_to_atom(Strategy), intensity => binary_to_integer(Intensity), period => 3600,
        auto_shutdown => binary_to_atom(Auto)},
    Own = [spec(Spec) || [Supervisor | Spec] <- Children, Supervisor =:= name(Name)],
    case Flags of
        #{strategy := simple_one_for_one} -> {ok, {Flags, [template(hd(Own))]}};
        _ -> {ok, {Flags, Own}}
    end.

name(s) -> <<"s">>;
name(Id) -> Id.

template(#{start := {_, start, [_, Kind]}} = Spec) -> Spec#{start := {?MODULE, start_one, [Kind]}}.

spec([Id, Restart, Shutdown, Kind, Significant]) ->
    Common = #{id => Id, restart => binary_to_atom(Restart), shutdown => shutdown(Shutdown),
        significant => Significant =:= <<"significant">>},
    case binary:split(Kind, <<":">>, [global]) of
        [<<"sup">>, Strategy, Intensity, Auto] ->
            Common#{type => supervisor,
                start => {supervisor, start_link, [?MODULE, {Id, Strategy, Intensity, Auto}]}};
        [<<"fails">>, Start] -> Common#{start => {?MODULE, start, [Id, {fails, binary_to_integer(Start)}]}};
        [Word] -> Common#{start => {?MODULE, start, [Id, binary_to_atom(Word)]}}
    end.

shutdown(<<"5">>) -> 5;
shutdown(Word) -> binary_to_atom(Word).

%% Children.
start(Id, Kind) -> proc_lib:start_link(?MODULE, child, [self(), Id, Kind]).

start_one(Kind, Id) -> start(Id, Kind).

child(Parent, Id, Kind) ->
    Start = ets:update_counter(tree, {starts, Id}, 1, {{starts, Id}, 0}),
    case Kind of
        {fails, Start} ->
            event([$?, Id, $., integer_to_list(Start)]),
            unlink(Parent),
            proc_lib:init_ack(Parent, {error, failed});
        _ ->
            event([$+, Id, $., integer_to_list(Start)]),
            ets:insert(tree, [{{pid, Id}, self()}, {self(), Id}]),
            hold(Id),
            process_flag(trap_exit, Kind =:= traps orelse Kind =:= stubborn),
            proc_lib:init_ack(Parent, {ok, self()}),
            live(Id, Kind)
    end.

%% A child that is to be held waits.
hold(Id) ->
    case ets:lookup(tree, hold) of
        [{_, Id}] ->
            ets:delete(tree, hold),
            event([$=, Id]),
            ets:lookup_element(tree, driver, 2) ! {held, self()},
            receive go_on -> ok end;
        _ -> ok
    end.

live(Id, Kind) ->
    receive
        {look, From, Reference} -> From ! {seen, Reference}, live(Id, Kind);
        {'end', Why} -> exit(Why);
        {'EXIT', _, Why} when Kind =:= traps -> event([$-, Id, $., reason(Why)]), exit(Why);
        {'EXIT', _, _} -> live(Id, Kind)
    end.
