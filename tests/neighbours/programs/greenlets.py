"""greenlet: frames that are suspended and resumed; one greenlet is killed."""
import greenlet

from rounds import bits, rounds, step


def producer(consumer_of, number):
    for i in range(5):
        consumer_of().switch(bits(*step(number + i)))
    raise ValueError("the producer has ended")


for number in rounds():
    main = greenlet.getcurrent()
    worker = greenlet.greenlet(lambda n=number: producer(lambda: main, n))
    print(number, *(worker.switch() for _ in range(5)))
    try:
        worker.switch()
    except ValueError as error:
        print(error)
    left = greenlet.greenlet(lambda n=number: producer(lambda: main, n))
    left.switch()
    left.throw(greenlet.GreenletExit)
    print(left.dead)
