import java.util.*;
public class Churn {
    public static void main(String[] args) throws Exception {
        long[] sums = new long[4];
        Thread[] threads = new Thread[4];
        for (int t = 0; t < 4; t++) {
            int me = t;
            threads[t] = new Thread(() -> {
                for (int round = 0; round < 50; round++) {
                    Map<Integer, String> map = new HashMap<>();
                    for (int i = 0; i < 2000; i++) map.put(i, "value " + i);
                    sums[me] += map.size();
                }
            });
            threads[t].start();
        }
        for (Thread t : threads) t.join();
        System.gc();
        System.out.println(Arrays.stream(sums).sum());
    }
}
