/* The capture journal: append-only, valid up to the last whole entry when the process dies.
 *
 * entry   = u32 magic "KFJ1" | u32 type | u64 payload length | u32 CRC-32 of payload | u32 zero | payload
 * payload = fields, each u64 length | bytes; numbers inside fields are decimal ASCII; all little endian.
 * The first field of every entry is the nonce of the process image that wrote it. */
#ifndef KDBFORGE_VGPU_JOURNAL_H
#define KDBFORGE_VGPU_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vgpu_entry_type {
    VGPU_ENTRY_PROCESS = 1,
    VGPU_ENTRY_BLOB = 2,
    VGPU_ENTRY_ACTION = 3,
    VGPU_ENTRY_MARK = 4,
    VGPU_ENTRY_LOAD = 5,
    VGPU_ENTRY_FORBIDDEN = 6,
    VGPU_ENTRY_UNSUPPORTED = 7,
    VGPU_ENTRY_COMMAND = 8,
};

enum { VGPU_NONCE_LENGTH = 16 };

/* An entry under construction; a failure is remembered and reported by the commit. */
struct vgpu_entry {
    uint32_t type;
    unsigned char *bytes;
    size_t length;
    size_t capacity;
    bool failed;
};

/* Open the journal and write this process image's PROCESS entry, unless that is done already.
 * False if the settings are wrong or the journal cannot be written: once broken, it stays so,
 * since entries behind a cut-off one would be lost to readers. */
bool vgpu_journal_ready(void);

/* The nonce of this process image, renewed after a fork. Valid once the journal is ready. */
void vgpu_journal_nonce(char nonce[VGPU_NONCE_LENGTH + 1]);

/* Start an entry; its first field is the nonce. */
void vgpu_entry_begin(struct vgpu_entry *entry, enum vgpu_entry_type type);
void vgpu_entry_bytes(struct vgpu_entry *entry, const void *bytes, size_t length);
void vgpu_entry_text(struct vgpu_entry *entry, const char *text);
void vgpu_entry_number(struct vgpu_entry *entry, uint64_t number);

/* Drop an entry that will not be written. */
void vgpu_entry_discard(struct vgpu_entry *entry);

/* Write the entry with one write() and free it; false if it is not wholly in the file. */
bool vgpu_entry_commit(struct vgpu_entry *entry);

/* Print an unsupported function's name and put it into the journal; with its calls, unless they are 0. */
void vgpu_journal_unsupported(const char *function, uint64_t calls);

/* CRC-32 as in zlib. */
uint32_t vgpu_crc32(const unsigned char *bytes, size_t length);

#endif
