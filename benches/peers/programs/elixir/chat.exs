# The program `examples/chat.rs` in Elixir.

defmodule Room do
  use GenServer

  def start_link, do: GenServer.start_link(__MODULE__, %{})
  def join(room, name), do: GenServer.call(room, {:join, name})
  def say(room, from, text), do: GenServer.cast(room, {:say, from, text})
  def names(room), do: GenServer.call(room, :names)

  @impl true
  def init(members), do: {:ok, members}

  @impl true
  def handle_call({:join, name}, {member, _}, members) do
    Process.monitor(member)
    members = Map.put(members, member, name)
    {:reply, map_size(members), members}
  end

  def handle_call(:names, _from, members), do: {:reply, members |> Map.values() |> Enum.sort(), members}

  @impl true
  def handle_cast({:say, from, text}, members) do
    with %{^from => name} <- members do
      for {member, _} <- members, do: send(member, {:line, "#{name}: #{text}"})
    end

    {:noreply, members}
  end

  @impl true
  def handle_info({:DOWN, _, :process, member, _}, members), do: {:noreply, Map.delete(members, member)}
end

defmodule Program do
  # Joins, hears `lines` lines, and leaves.
  def member(room, name, lines) do
    Room.join(room, name)

    for _ <- 1..lines//1 do
      receive do
        {:line, line} -> IO.puts("#{name} hears: #{line}")
      end
    end
  end

  def until_names(room, names), do: Room.names(room) == names || until_names(room, names)

  def run do
    {:ok, room} = Room.start_link()
    ada = spawn(fn -> member(room, "Ada", 1) end)
    bob = spawn(fn -> member(room, "Bob", 2) end)
    until_names(room, ["Ada", "Bob"])
    Room.say(room, ada, "hello")
    until_names(room, ["Bob"])
    IO.puts("Ada has left")
    Room.say(room, bob, "anybody here?")
    until_names(room, [])
  end
end

Program.run()
