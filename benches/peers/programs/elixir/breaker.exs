# The program `examples/breaker.rs` in Elixir.

defmodule Breaker do
  use GenServer

  def start_link, do: GenServer.start_link(__MODULE__, {:closed, 0})

  # Returns true if a call is allowed. Its outcome must be reported.
  def admit(breaker), do: GenServer.call(breaker, :admit)
  def report(breaker, success), do: GenServer.cast(breaker, {:report, success})

  @impl true
  def init(state), do: {:ok, state}

  @impl true
  def handle_call(:admit, _from, :half_open), do: {:reply, true, :trying}
  def handle_call(:admit, _from, state), do: {:reply, state not in [:open, :trying], state}

  @impl true
  def handle_cast({:report, _}, late) when late in [:open, :half_open], do: {:noreply, late}
  def handle_cast({:report, true}, _state), do: {:noreply, {:closed, 0}}
  def handle_cast({:report, false}, {:closed, n}) when n < 2, do: {:noreply, {:closed, n + 1}}

  def handle_cast({:report, false}, _state) do
    IO.puts("open: calls are refused")
    Process.send_after(self(), :try_again, 20)
    {:noreply, :open}
  end

  @impl true
  def handle_info(:try_again, _state) do
    IO.puts("half open: one call may try")
    {:noreply, :half_open}
  end
end

defmodule Program do
  def until_admitted(breaker) do
    unless Breaker.admit(breaker) do
      Process.sleep(5)
      until_admitted(breaker)
    end
  end

  def run do
    {:ok, breaker} = Breaker.start_link()
    for _ <- 1..3, do: Breaker.report(breaker, false)
    until_admitted(breaker)
    Breaker.report(breaker, true)
    IO.puts("closed again: #{Breaker.admit(breaker)}")
  end
end

Program.run()
