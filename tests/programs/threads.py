import json, threading, queue
q = queue.Queue()
def work(n):
    for i in range(200):
        q.put(json.loads(json.dumps({"id": i, "list": list(range(20)), "text": "x" * (i % 50)})))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
total = 0
while not q.empty(): total += len(q.get()["list"])
print(total)
