#define _POSIX_C_SOURCE 200809L /* strnlen */
#include "code_object.h"

#include "probe.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Constants of the AMDGPU ELF ABI that older elf.h lack (LLVM, "User Guide for AMDGPU Backend", ELF header). */
enum {
    MACHINE_AMDGPU = 224,
    OSABI_AMDGPU_HSA = 64,
    ABI_VERSION_V4 = 2,
    ABI_VERSION_V6 = 4,
    FLAG_MACH = 0x0FF,
    FLAG_XNACK_SHIFT = 8,
    FLAG_SRAMECC_SHIFT = 10,
    FLAG_FEATURE_MASK = 3,
};
enum feature { FEATURE_UNSUPPORTED, FEATURE_ANY, FEATURE_OFF, FEATURE_ON };

/* No real code object comes near this; it bounds the work that a hostile header can ask for. */
static const uint64_t largest_image = UINT64_C(1) << 30;
/* Names may share their bytes, so that a small table of them could be read as gigabytes. */
static const uint64_t most_symbols = 100000, longest_name = 16384, most_name_bytes = UINT64_C(16) << 20;

static const struct machine {
    const char *arch;
    unsigned mach;
} machines[] = {
    {"gfx600", 0x020},  {"gfx601", 0x021},  {"gfx602", 0x03A},  {"gfx700", 0x022},  {"gfx701", 0x023},
    {"gfx702", 0x024},  {"gfx703", 0x025},  {"gfx704", 0x026},  {"gfx705", 0x03B},  {"gfx801", 0x028},
    {"gfx802", 0x029},  {"gfx803", 0x02A},  {"gfx805", 0x03C},  {"gfx810", 0x02B},  {"gfx900", 0x02C},
    {"gfx902", 0x02D},  {"gfx904", 0x02E},  {"gfx906", 0x02F},  {"gfx908", 0x030},  {"gfx909", 0x031},
    {"gfx90a", 0x03F},  {"gfx90c", 0x032},  {"gfx942", 0x04C},  {"gfx950", 0x04F},  {"gfx1010", 0x033},
    {"gfx1011", 0x034}, {"gfx1012", 0x035}, {"gfx1013", 0x042}, {"gfx1030", 0x036}, {"gfx1031", 0x037},
    {"gfx1032", 0x038}, {"gfx1033", 0x039}, {"gfx1034", 0x03E}, {"gfx1035", 0x03D}, {"gfx1036", 0x045},
    {"gfx1100", 0x041}, {"gfx1101", 0x046}, {"gfx1102", 0x047}, {"gfx1103", 0x044}, {"gfx1150", 0x043},
    {"gfx1151", 0x04A}, {"gfx1152", 0x055}, {"gfx1153", 0x058}, {"gfx1200", 0x048}, {"gfx1201", 0x04E},
    {"gfx1250", 0x049}, {"gfx1251", 0x05A},
};

struct reader {
    const unsigned char *image;
    uint64_t size;
    struct probe probe;  /* both only for images of unknown size: */
    uint64_t readable;   /* how many bytes are known to be readable */
    uint64_t name_bytes; /* of the symbols so far */
    bool seen_dynsym, seen_symtab;
    char *reason;
    size_t reason_size;
};

static bool refuse(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct reader *reader, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->reason, reader->reason_size, format, arguments);
    va_end(arguments);
    return false;
}

/* An image of unknown size goes on as far as its memory does without a gap. */
static bool reaches(struct reader *reader, uint64_t end)
{
    if (end > reader->readable) {
        if (end > largest_image ||
            !probe_range(&reader->probe, reader->image, reader->readable, end - reader->readable)) {
            return false;
        }
        reader->readable = end;
    }
    return true;
}

/* The bytes [offset, offset + length) of the image, or NULL if they are not all in it. */
static const unsigned char *view(struct reader *reader, uint64_t offset, uint64_t length)
{
    if (length > UINT64_MAX - offset) {
        return NULL;
    }
    if (reader->size != CODE_OBJECT_UNSIZED ? offset + length > reader->size : !reaches(reader, offset + length)) {
        return NULL;
    }
    return reader->image + offset;
}

static const char *arch_of(unsigned mach)
{
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        if (machines[i].mach == mach) {
            return machines[i].arch;
        }
    }
    return NULL;
}

static bool read_header(struct reader *reader, Elf64_Ehdr *header)
{
    const unsigned char *const bytes = view(reader, 0, sizeof *header);

    if (bytes == NULL) {
        return refuse(reader, "shorter than an ELF header");
    }
    memcpy(header, bytes, sizeof *header);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
        return refuse(reader, "not an ELF file");
    }
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != MACHINE_AMDGPU || header->e_ident[EI_OSABI] != OSABI_AMDGPU_HSA) {
        return refuse(reader, "ELF file for machine %u, not an AMDGPU code object", header->e_machine);
    }
    if (header->e_type != ET_DYN) {
        return refuse(reader, "ELF type %u is not a linked code object", header->e_type);
    }
    if (header->e_ident[EI_ABIVERSION] < ABI_VERSION_V4 || header->e_ident[EI_ABIVERSION] > ABI_VERSION_V6) {
        return refuse(reader, "code object ABI version %u is not v4, v5 or v6", header->e_ident[EI_ABIVERSION]);
    }
    return true;
}

static const char *const feature_suffix[] = {
    [FEATURE_UNSUPPORTED] = NULL, [FEATURE_ANY] = NULL, [FEATURE_OFF] = "-", [FEATURE_ON] = "+"};

static bool read_target(struct reader *reader, const Elf64_Ehdr *header, struct code_object *object)
{
    const char *const arch = arch_of(header->e_flags & FLAG_MACH);
    const char *const sramecc = feature_suffix[(header->e_flags >> FLAG_SRAMECC_SHIFT) & FLAG_FEATURE_MASK];
    const char *const xnack = feature_suffix[(header->e_flags >> FLAG_XNACK_SHIFT) & FLAG_FEATURE_MASK];

    if (arch == NULL) {
        return refuse(reader, "EF_AMDGPU_MACH 0x%x is not known", header->e_flags & FLAG_MACH);
    }
    snprintf(object->target, sizeof object->target, "%s%s%s%s%s", arch, sramecc == NULL ? "" : ":sramecc",
             sramecc == NULL ? "" : sramecc, xnack == NULL ? "" : ":xnack", xnack == NULL ? "" : xnack);
    return true;
}

static bool extend(struct code_object *object, uint64_t offset, uint64_t length)
{
    if (offset > UINT64_MAX - length) {
        return false;
    }
    if (offset + length > object->length) {
        object->length = offset + length;
    }
    return true;
}

static bool read_segments(struct reader *reader, const Elf64_Ehdr *header, struct code_object *object)
{
    const uint64_t length = (uint64_t)header->e_phnum * sizeof(Elf64_Phdr);
    const unsigned char *const bytes = view(reader, header->e_phoff, length);

    if (header->e_phnum == 0) {
        return refuse(reader, "no program headers");
    }
    if (header->e_phentsize != sizeof(Elf64_Phdr) || bytes == NULL || !extend(object, header->e_phoff, length)) {
        return refuse(reader, "program headers lie outside the image");
    }
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;

        memcpy(&segment, bytes + i * sizeof segment, sizeof segment);
        if (!extend(object, segment.p_offset, segment.p_filesz)) {
            return refuse(reader, "segment %u lies outside the image", i);
        }
    }
    return true;
}

static bool is_kernel(const Elf64_Sym *symbol, const char *name)
{
    const size_t length = strlen(name);

    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && length > 3 &&
           strcmp(name + length - 3, ".kd") == 0;
}

static bool add_kernel(struct code_object *object, const char *symbol)
{
    const size_t length = strlen(symbol) - 3;
    char *const name = malloc(length + 1);
    char **const kernels = realloc(object->kernels, (object->kernel_count + 1) * sizeof *kernels);

    if (kernels != NULL) {
        object->kernels = kernels;
    }
    if (name == NULL || kernels == NULL) {
        free(name);
        return false;
    }
    memcpy(name, symbol, length);
    name[length] = '\0';
    kernels[object->kernel_count++] = name;
    return true;
}

static bool read_symbols(struct reader *reader, const Elf64_Shdr *table, const Elf64_Shdr *strings,
                         struct code_object *object)
{
    const unsigned char *const symbols = view(reader, table->sh_offset, table->sh_size);
    const char *const text = (const char *)view(reader, strings->sh_offset, strings->sh_size);

    if (symbols == NULL || text == NULL || table->sh_entsize != sizeof(Elf64_Sym) ||
        strings->sh_type != SHT_STRTAB || strings->sh_size == 0 || text[strings->sh_size - 1] != '\0') {
        return refuse(reader, "a symbol table is damaged");
    }
    if (table->sh_size / sizeof(Elf64_Sym) > most_symbols) {
        return refuse(reader, "a symbol table has more than %llu symbols", (unsigned long long)most_symbols);
    }
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;

        memcpy(&symbol, symbols + i * sizeof symbol, sizeof symbol);
        if (symbol.st_name >= strings->sh_size) {
            return refuse(reader, "the name of symbol %llu lies outside its string table",
                          (unsigned long long)i);
        }
        const size_t length = strnlen(text + symbol.st_name, longest_name + 1);
        reader->name_bytes += length;
        if (length > longest_name || reader->name_bytes > most_name_bytes) {
            return refuse(reader, "the names of its symbols are too long");
        }
        if (is_kernel(&symbol, text + symbol.st_name) && !add_kernel(object, text + symbol.st_name)) {
            return refuse(reader, "out of memory");
        }
    }
    return true;
}

static Elf64_Shdr section_at(const unsigned char *headers, unsigned index)
{
    Elf64_Shdr section;

    memcpy(&section, headers + index * sizeof section, sizeof section);
    return section;
}

static bool read_sections(struct reader *reader, const Elf64_Ehdr *header, struct code_object *object)
{
    const uint64_t length = (uint64_t)header->e_shnum * sizeof(Elf64_Shdr);
    const unsigned char *const headers = view(reader, header->e_shoff, length);

    if (header->e_shnum == 0) {
        return refuse(reader, "no section headers");
    }
    if (header->e_shentsize != sizeof(Elf64_Shdr) || headers == NULL ||
        !extend(object, header->e_shoff, length)) {
        return refuse(reader, "section headers lie outside the image");
    }
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr section = section_at(headers, i);

        if (section.sh_type != SHT_NOBITS &&
            (section.sh_size > largest_image || !extend(object, section.sh_offset, section.sh_size))) {
            return refuse(reader, "section %u lies outside the image", i);
        }
    }
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr table = section_at(headers, i);

        if (table.sh_type != SHT_DYNSYM && table.sh_type != SHT_SYMTAB) {
            continue;
        }
        bool *const seen = table.sh_type == SHT_DYNSYM ? &reader->seen_dynsym : &reader->seen_symtab;
        if (*seen) { /* gABI, "Sections": only one of each */
            return refuse(reader, "symbol table %u is not the only one of its type", i);
        }
        *seen = true;
        if (table.sh_link >= header->e_shnum) {
            return refuse(reader, "symbol table %u has no string table", i);
        }
        const Elf64_Shdr strings = section_at(headers, table.sh_link);
        if (!read_symbols(reader, &table, &strings, object)) {
            return false;
        }
    }
    return true;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static bool read_all(struct reader *reader, struct code_object *object)
{
    Elf64_Ehdr header;

    if (!read_header(reader, &header) || !read_target(reader, &header, object)) {
        return false;
    }
    object->length = sizeof header;
    if (!read_segments(reader, &header, object) || !read_sections(reader, &header, object)) {
        return false;
    }
    if (view(reader, 0, object->length) == NULL) {
        return refuse(reader, "cut off: its headers tell of %llu bytes", (unsigned long long)object->length);
    }
    if (object->kernel_count > 0) {
        qsort(object->kernels, object->kernel_count, sizeof *object->kernels, compare_names);
    }
    return true;
}

bool code_object_read(struct code_object *object, const void *image, uint64_t size, char *reason,
                      size_t reason_size)
{
    struct reader reader = {.image = image, .size = size, .probe = {{-1, -1}}, .reason = reason,
                            .reason_size = reason_size};
    bool good = false;

    memset(object, 0, sizeof *object);
    if (size == CODE_OBJECT_UNSIZED && !probe_open(&reader.probe)) {
        return refuse(&reader, "no pipe to probe it with: %s", strerror(errno));
    }
    good = read_all(&reader, object);
    if (size == CODE_OBJECT_UNSIZED) {
        probe_close(&reader.probe);
    }
    if (!good) {
        code_object_free(object);
    }
    return good;
}

void code_object_free(struct code_object *object)
{
    for (size_t i = 0; i < object->kernel_count; i++) {
        free(object->kernels[i]);
    }
    free(object->kernels);
    object->kernels = NULL;
    object->kernel_count = 0;
}

bool code_object_has_kernel(const struct code_object *object, const char *name)
{
    return object->kernel_count > 0 && bsearch(&name, object->kernels, object->kernel_count,
                                               sizeof *object->kernels, compare_names) != NULL;
}

/* '+', '-' or 0 for a feature that a target ID does not name. */
static char setting(const char *target, const char *feature)
{
    const char *const found = strstr(target, feature);

    return found == NULL ? '\0' : found[strlen(feature)];
}

bool code_object_target_fits(const char *target, const char *device)
{
    static const char *const features[] = {":sramecc", ":xnack"};
    const size_t arch = strcspn(target, ":");

    if (arch != strcspn(device, ":") || strncmp(target, device, arch) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        const char wanted = setting(target, features[i]);

        if (wanted != '\0' && wanted != setting(device, features[i])) {
            return false;
        }
    }
    return true;
}
