// Measures Java's counters under concurrent writers: `java LongAdder.java [threads] [seconds]`.
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

final class Peer {
    interface Counter {
        void add(long n);
        long sum();
    }

    static double millionsPerSec(Counter counter, int threads, double seconds) throws Exception {
        var start = new CyclicBarrier(threads + 1);
        var done = new AtomicLong();
        var workers = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            workers[t] = new Thread(() -> {
                try {
                    start.await();
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
                long began = System.nanoTime(), length = (long) (seconds * 1e9), count = 0;
                do {
                    for (int i = 0; i < 1000; i++) counter.add(1);
                    count += 1000;
                } while (System.nanoTime() - began < length);
                done.addAndGet(count);
            });
            workers[t].start();
        }
        start.await();
        long began = System.nanoTime();
        for (var worker : workers) worker.join();
        double took = (System.nanoTime() - began) / 1e9;
        if (counter.sum() < done.get()) throw new IllegalStateException("counts were lost");
        return done.get() / took / 1e6;
    }

    static Counter atomic() {
        var value = new AtomicLong();
        return new Counter() {
            public void add(long n) { value.addAndGet(n); }
            public long sum() { return value.get(); }
        };
    }

    static Counter adder() {
        var value = new LongAdder();
        return new Counter() {
            public void add(long n) { value.add(n); }
            public long sum() { return value.sum(); }
        };
    }

    public static void main(String[] args) throws Exception {
        int threads = args.length > 0 ? Integer.parseInt(args[0]) : 2;
        double seconds = args.length > 1 ? Double.parseDouble(args[1]) : 2;
        for (int warm = 0; warm < 2; warm++) {
            millionsPerSec(atomic(), threads, 0.3);
            millionsPerSec(adder(), threads, 0.3);
        }
        System.out.printf("AtomicLong, %d threads: %.1f M/s%n", threads, millionsPerSec(atomic(), threads, seconds));
        System.out.printf("LongAdder, %d threads: %.1f M/s%n", threads, millionsPerSec(adder(), threads, seconds));
    }
}
