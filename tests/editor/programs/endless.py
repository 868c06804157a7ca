import time

print("started", flush=True)
while True:
    time.sleep(0.1)
