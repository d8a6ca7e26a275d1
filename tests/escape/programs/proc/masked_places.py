# expect: completed
import os

FILES = (
    "kcore keys timer_list sched_debug interrupts kallsyms latency_stats timer_stats sysrq-trigger irq/0 acpi/wakeup "
    "bus/pci scsi/scsi fs/ext4 kmsg kpagecount kpageflags iomem_"
).split()


def extract(path):
    escaped = []
    for name in [f"/proc/{name}" for name in FILES] + ["/sys/firmware/dmi", "/sys/kernel/debug", "/sys/fs/bpf/x"]:
        try:
            found = os.listdir(name) if os.path.isdir(name) else open(name, "rb").read(64)
        except OSError:
            continue
        if found:
            escaped.append([name, str(found)])
    return {"escaped": escaped}
