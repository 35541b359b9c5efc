%% Runs rusm's benchmark scenarios on the BEAM, under the same rules, and prints one line of figures per run:
%%
%%   erlc beam.erl && erl -noshell +P 2000000 -s beam main SCENARIO [SECONDS]
%%
%% SCENARIO: spawn-storm ping-pong ping-pong-64 fan-in supervisor supervisor-16 respawn respawn-16 down
-module(beam).
-behaviour(supervisor).
-export([main/1, ponger/0, init/1, start_child/1, child/1]).

-define(WARM_UP_MS, 300).
-define(ALIVE_MAX, 2000).
-define(SPAWNERS, 2).

main([Scenario]) -> main([Scenario, '1']);
main([Scenario, Seconds]) ->
    logger:set_primary_config(level, none),
    Run = {counters:new(2, [write_concurrency]), atomics:new(1, [])},
    Window = round(number(atom_to_list(Seconds)) * 1000),
    {Operations, Nanoseconds, CpuMs} = run(Scenario, Run, Window),
    io:format("beam\t~s\tops_per_s=~w\tcpu_ns_per_op=~.1f~n",
              [Scenario, round(Operations * 1.0e9 / Nanoseconds), CpuMs * 1.0e6 / max(Operations, 1)]),
    halt().

number(Text) -> try list_to_float(Text) catch error:badarg -> list_to_integer(Text) end.
now_ns() -> erlang:monotonic_time(nanosecond).
cpu_ms() -> {Cpu, _} = statistics(runtime), Cpu.

add({Counts, _}, Operations) -> counters:add(Counts, 1, Operations).
is_over({_, Over}) -> atomics:get(Over, 1) =:= 1.

%% Returns operations, nanoseconds and milliseconds of CPU time of the window after the warm-up.
measure({Counts, Over}, Window) ->
    timer:sleep(?WARM_UP_MS),
    {Before, Cpu, Start} = {counters:get(Counts, 1), cpu_ms(), now_ns()},
    timer:sleep(Window),
    Result = {counters:get(Counts, 1) - Before, now_ns() - Start, cpu_ms() - Cpu},
    atomics:put(Over, 1, 1),
    Result.

run('spawn-storm', Run, Window) ->
    [spawn(fun() -> spawn_storm(Run) end) || _ <- lists:seq(1, ?SPAWNERS)],
    measure(Run, Window);
run('ping-pong', Run, Window) -> ping_pong(Run, Window, 1);
run('ping-pong-64', Run, Window) -> ping_pong(Run, Window, 64);
%% Messages received from 64 producers that send 30,000 each, in rounds.
run('fan-in', _, Window) ->
    fan_in(now_ns(), cpu_ms(), Window * 1000000, 0);
run(supervisor, Run, Window) -> supervisors(Run, Window, 1);
run('supervisor-16', Run, Window) -> supervisors(Run, Window, 16);
run(respawn, Run, Window) -> respawns(Run, Window, 1);
run('respawn-16', Run, Window) -> respawns(Run, Window, 16);
run(down, Run, Window) ->
    spawn(fun() -> down(Run) end),
    measure(Run, Window).

spawn_storm(Run) ->
    case is_over(Run) of
        true -> ok;
        false ->
            spawn_all(Run, 64),
            counters:add(element(1, Run), 2, 64),
            give_way(Run),
            spawn_storm(Run)
    end.

spawn_all(_, 0) -> ok;
spawn_all(Run, Left) ->
    spawn(fun() -> add(Run, 1) end),
    spawn_all(Run, Left - 1).

give_way({Counts, _} = Run) ->
    case counters:get(Counts, 2) - counters:get(Counts, 1) > ?ALIVE_MAX of
        true -> erlang:yield(), give_way(Run);
        false -> ok
    end.

%% Round trips.
ping_pong(Run, Window, Pairs) ->
    [spawn(fun() -> pinger(Run, spawn(?MODULE, ponger, []), 0) end) || _ <- lists:seq(1, Pairs)],
    measure(Run, Window).

pinger(Run, Ponger, Ping) ->
    case is_over(Run) of
        true -> ok;
        false ->
            Ponger ! {self(), Ping},
            receive Ping -> ok end,
            add(Run, 1),
            pinger(Run, Ponger, Ping + 1)
    end.

ponger() -> receive {From, Ping} -> From ! Ping, ponger() end.

fan_in(Start, Cpu, Window, Received) ->
    case now_ns() - Start of
        Time when Time >= Window -> {Received, Time, cpu_ms() - Cpu};
        _ ->
            Self = self(),
            Sink = spawn(fun() -> take(64 * 30000), Self ! received end),
            [spawn(fun() -> send(Sink, 30000) end) || _ <- lists:seq(1, 64)],
            receive received -> ok end,
            fan_in(Start, Cpu, Window, Received + 64 * 30000)
    end.

take(0) -> ok;
take(Left) -> receive _ -> take(Left - 1) end.
send(_, 0) -> ok;
send(Sink, Left) -> Sink ! Left, send(Sink, Left - 1).

%% Restarts by OTP's supervisor, which records the time of each restart within the period.
supervisors(Run, Window, Supervisors) ->
    [spawn(fun() -> {ok, _} = supervisor:start_link(?MODULE, Run), timer:sleep(infinity) end) || _ <- lists:seq(1, Supervisors)],
    measure(Run, Window).

init(Run) ->
    {ok, {#{strategy => one_for_one, intensity => 1000000000, period => 1},
          [#{id => child, start => {?MODULE, start_child, [Run]}, restart => transient, shutdown => brutal_kill}]}}.
start_child(Run) -> {ok, spawn_link(?MODULE, child, [Run])}.

child(Run) ->
    add(Run, 1),
    case is_over(Run) of
        true -> timer:sleep(infinity);
        false -> exit(crash)
    end.

%% Restarts by a loop that traps exits: the cost on the BEAM without that bookkeeping.
respawns(Run, Window, Supervisors) ->
    [spawn(fun() -> process_flag(trap_exit, true), respawn(Run) end) || _ <- lists:seq(1, Supervisors)],
    measure(Run, Window).

respawn(Run) ->
    Child = spawn_link(?MODULE, child, [Run]),
    receive {'EXIT', Child, crash} -> respawn(Run) end.

%% Spawns a monitored process, lets it exit, and receives its DOWN message.
down(Run) ->
    case is_over(Run) of
        true -> ok;
        false ->
            {Child, Monitor} = spawn_monitor(fun() -> ok end),
            receive {'DOWN', Monitor, process, Child, normal} -> add(Run, 1) end,
            down(Run)
    end.
