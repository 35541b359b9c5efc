# The program `examples/job_queue.rs` in Elixir, on the tables of OTP's `dets`.

defmodule Jobs do
  use GenServer

  def start_link({file, work}), do: GenServer.start_link(__MODULE__, {file, work}, name: __MODULE__)

  # Returns when the job is on disk. A job that is there already is not added again.
  def enqueue(name), do: GenServer.call(__MODULE__, {:enqueue, name})
  def pending, do: GenServer.call(__MODULE__, :pending)

  @impl true
  def init({file, work}) do
    {:ok, table} = :dets.open_file(__MODULE__, file: String.to_charlist(file))
    send(self(), :next)
    {:ok, {table, work}}
  end

  @impl true
  def handle_call({:enqueue, name}, _from, {table, _} = state) do
    :dets.insert_new(table, {name, :waiting, 1, now()})
    {:reply, :dets.sync(table), state}
  end

  def handle_call(:pending, _from, {table, _} = state) do
    {:reply, length(:dets.match(table, {:"$1", :waiting, :_, :_})), state}
  end

  @impl true
  def handle_info(:next, {table, work} = state) do
    for {name, :waiting, attempt, due} <- :dets.match_object(table, {:_, :waiting, :_, :_}), due <= now() do
      :dets.insert(table, try_once(name, attempt, work))
      :dets.sync(table)
    end

    Process.send_after(self(), :next, 5)
    {:noreply, state}
  end

  # A job that fails is retried after 50 ms, twice that after the next failure, and so on.
  defp try_once(name, attempt, work) do
    case Task.await(Task.async(fn -> work.(name, attempt) end)) do
      :ok -> {name, :served, attempt, now()}
      {:error, _why} -> {name, :waiting, attempt + 1, now() + 25 * 2 ** attempt}
    end
  end

  defp now, do: System.os_time(:millisecond)
end

defmodule Program do
  def deliver("bob", 1), do: {:error, "bob is not at home"}
  def deliver(name, attempt), do: IO.puts("#{name} is served at attempt #{attempt}")

  def wait_for_all do
    if Jobs.pending() > 0 do
      Process.sleep(5)
      wait_for_all()
    end
  end

  def run do
    file = List.first(System.argv()) || "jobs.dets"
    {:ok, _} = Supervisor.start_link([{Jobs, {file, &deliver/2}}], strategy: :one_for_one)
    for name <- ["ada", "bob", "cleo"], do: Jobs.enqueue(name)
    wait_for_all()
    IO.puts("all orders are served")
  end
end

Program.run()
