# The program `examples/cache.rs` in Elixir.

defmodule Cache do
  use GenServer

  def start_link, do: GenServer.start_link(__MODULE__, nil)
  def put(cache, key, value, life), do: GenServer.cast(cache, {:put, key, value, life})
  def get(cache, key), do: GenServer.call(cache, {:get, key})
  def hits(cache), do: GenServer.call(cache, :hits)

  @impl true
  def init(nil), do: {:ok, {%{}, 0}}

  @impl true
  def handle_cast({:put, key, value, life}, {entries, hits}) do
    with {_, older} <- entries[key], do: Process.cancel_timer(older)
    timer = Process.send_after(self(), {:expired, key}, life)
    {:noreply, {Map.put(entries, key, {value, timer}), hits}}
  end

  @impl true
  def handle_call({:get, key}, _from, {entries, hits}) do
    case entries do
      %{^key => {value, _}} -> {:reply, value, {entries, hits + 1}}
      _ -> {:reply, nil, {entries, hits}}
    end
  end

  def handle_call(:hits, _from, {entries, hits}), do: {:reply, hits, {entries, hits}}

  @impl true
  def handle_info({:expired, key}, {entries, hits}), do: {:noreply, {Map.delete(entries, key), hits}}
end

defmodule Program do
  def until_expired(cache) do
    if Cache.get(cache, "colour") do
      Process.sleep(10)
      until_expired(cache)
    end
  end

  def run do
    {:ok, cache} = Cache.start_link()
    Cache.put(cache, "colour", "blue", 60_000)
    Cache.put(cache, "shape", "round", 60_000)
    IO.puts("colour: #{inspect(Cache.get(cache, "colour"))}")
    Cache.put(cache, "colour", "red", 50)
    until_expired(cache)
    IO.puts("colour has expired, shape: #{inspect(Cache.get(cache, "shape"))}")
    IO.puts("hits: #{if Cache.hits(cache) >= 2, do: "2 or more", else: "too few"}")
  end
end

Program.run()
