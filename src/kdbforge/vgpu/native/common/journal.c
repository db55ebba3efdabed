#define _GNU_SOURCE /* syscall, pthread_atfork in a strict C11 build */
#include "journal.h"

#include "locks.h"
#include "report.h"
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { HEADER_SIZE = 24 };

static const uint32_t magic = 0x314A464BU; /* "KFJ1" */

VGPU_DEFINE_LOCK(VGPU_LOCK_JOURNAL);

static int descriptor = -1;
static bool broken;
static pid_t owner; /* the process that the nonce belongs to */
static char nonce_text[VGPU_NONCE_LENGTH + 1];

static uint32_t crc_table[256];

__attribute__((constructor)) static void fill_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;

        for (int bit = 0; bit < 8; bit++) {
            value = (value >> 1) ^ ((value & 1U) ? 0xEDB88320U : 0U);
        }
        crc_table[i] = value;
    }
}

uint32_t vgpu_crc32(const unsigned char *bytes, size_t length)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < length; i++) {
        crc = (crc >> 8) ^ crc_table[(crc ^ bytes[i]) & 0xFFU];
    }
    return ~crc;
}

static void put_number(unsigned char *place, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        place[i] = (unsigned char)(number >> (8 * i));
    }
}

/* Room for more bytes at the end of the entry, or NULL. */
static unsigned char *grow(struct vgpu_entry *entry, size_t more)
{
    if (!entry->failed && more > entry->capacity - entry->length) {
        size_t capacity = entry->capacity < 512 ? 512 : entry->capacity;
        unsigned char *bytes = NULL;

        while (capacity - entry->length < more && capacity <= SIZE_MAX / 2) {
            capacity *= 2;
        }
        bytes = capacity - entry->length < more ? NULL : realloc(entry->bytes, capacity);
        entry->failed = bytes == NULL;
        if (bytes != NULL) {
            entry->bytes = bytes;
            entry->capacity = capacity;
        }
    }
    if (entry->failed) {
        return NULL;
    }
    entry->length += more;
    return entry->bytes + entry->length - more;
}

void vgpu_entry_bytes(struct vgpu_entry *entry, const void *bytes, size_t length)
{
    unsigned char *const size = grow(entry, 8);

    if (size == NULL) {
        return;
    }
    put_number(size, length, 8);
    if (length > 0) {
        unsigned char *const place = grow(entry, length);

        if (place != NULL) {
            memcpy(place, bytes, length);
        }
    }
}

void vgpu_entry_text(struct vgpu_entry *entry, const char *text)
{
    vgpu_entry_bytes(entry, text, strlen(text));
}

void vgpu_entry_number(struct vgpu_entry *entry, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    vgpu_entry_text(entry, text);
}

void vgpu_entry_discard(struct vgpu_entry *entry)
{
    free(entry->bytes);
    entry->bytes = NULL;
}

static void begin(struct vgpu_entry *entry, enum vgpu_entry_type type)
{
    memset(entry, 0, sizeof *entry);
    entry->type = type;
    grow(entry, HEADER_SIZE);
    vgpu_entry_text(entry, nonce_text);
}

void vgpu_entry_begin(struct vgpu_entry *entry, enum vgpu_entry_type type)
{
    take_lock();
    begin(entry, type);
    drop_lock();
}

/* Needs the lock. A short write leaves a damaged tail, so nothing may follow it. */
static bool commit(struct vgpu_entry *entry)
{
    if (!entry->failed && !broken) {
        const size_t payload = entry->length - HEADER_SIZE;
        ssize_t written = 0;

        put_number(entry->bytes, magic, 4);
        put_number(entry->bytes + 4, entry->type, 4);
        put_number(entry->bytes + 8, payload, 8);
        put_number(entry->bytes + 16, vgpu_crc32(entry->bytes + HEADER_SIZE, payload), 4);
        put_number(entry->bytes + 20, 0, 4);
        do {
            written = write(descriptor, entry->bytes, entry->length);
        } while (written < 0 && errno == EINTR);
        entry->failed = written < 0 || (size_t)written != entry->length;
    }
    if (entry->failed && !broken) {
        broken = true;
        vgpu_report("the capture journal cannot be written any more: %s",
                    errno != 0 ? strerror(errno) : "short write");
    }
    free(entry->bytes);
    entry->bytes = NULL;
    return !entry->failed && !broken;
}

bool vgpu_entry_commit(struct vgpu_entry *entry)
{
    bool good = false;

    take_lock();
    good = commit(entry);
    drop_lock();
    return good;
}

static bool random_nonce(void)
{
    unsigned char bytes[VGPU_NONCE_LENGTH / 2];

    /* The system call itself: the function is younger than some glibc that this may meet. */
    if (syscall(SYS_getrandom, bytes, sizeof bytes, 0) != (long)sizeof bytes) {
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(nonce_text + 2 * i, 3, "%02x", bytes[i]);
    }
    return true;
}

/* Needs the lock. */
static bool open_journal(const struct vgpu_settings *settings)
{
    if (descriptor >= 0) {
        return true;
    }
    descriptor = open(settings->journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        vgpu_report("KDBFORGE_VGPU_JOURNAL=%s: %s", settings->journal, strerror(errno));
        return false;
    }
    return true;
}

/* Needs the lock. */
static bool introduce(const struct vgpu_settings *settings)
{
    struct vgpu_entry entry;

    if (!random_nonce()) {
        vgpu_report("the system gives no random bytes: %s", strerror(errno));
        return false;
    }
    begin(&entry, VGPU_ENTRY_PROCESS);
    vgpu_entry_number(&entry, (uint64_t)getpid());
    vgpu_entry_text(&entry, vgpu_compile_mode_name(settings->compile));
    vgpu_entry_text(&entry, settings->profiles[0].gcn_arch_name);
    return commit(&entry);
}

bool vgpu_journal_ready(void)
{
    const struct vgpu_settings *const settings = vgpu_settings();
    bool good = false;

    if (settings == NULL) {
        return false;
    }
    take_lock();
    if (!broken && owner != getpid()) {
        owner = getpid();
        broken = !open_journal(settings) || !introduce(settings);
    }
    good = !broken;
    drop_lock();
    return good;
}

void vgpu_journal_nonce(char nonce[VGPU_NONCE_LENGTH + 1])
{
    take_lock();
    memcpy(nonce, nonce_text, sizeof nonce_text);
    drop_lock();
}

void vgpu_journal_unsupported(const char *function, uint64_t calls)
{
    struct vgpu_entry entry;

    if (calls == 0) {
        vgpu_report("`%s` is not supported by the virtual GPU", function);
    } else {
        vgpu_report("`%s` is not supported by the virtual GPU; calls: %" PRIu64, function, calls);
    }
    if (vgpu_journal_ready()) {
        vgpu_entry_begin(&entry, VGPU_ENTRY_UNSUPPORTED);
        vgpu_entry_text(&entry, function);
        if (calls != 0) {
            vgpu_entry_number(&entry, calls);
        }
        vgpu_entry_commit(&entry);
    }
}
