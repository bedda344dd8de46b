#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#include MODEL_H
int main(void) { mcufuse_init(&MODEL); printk("%d\n", mcufuse_run(&MODEL)); printk("mcufuse: self-test passed\n"); return 0; }
