/* One line to stderr, written at once, so that lines of several threads do not mix. */
#ifndef KDBFORGE_VGPU_REPORT_H
#define KDBFORGE_VGPU_REPORT_H

#define VGPU_EXPORT __attribute__((visibility("default")))

void vgpu_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
