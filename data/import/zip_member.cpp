// ZIP archives (PKWARE's APPNOTE 6.3.9): the end record leads to the directory, the directory to
// the files. With the 64-bit forms of both, which NumPy writes for large arrays.
#include "data/import/zip_member.hpp"

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include "data/file/file_io.hpp"
#include "data/import/import_formats.hpp"

#include <fmt/format.h>

#include <zlib.h>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <utility>

namespace cohort {

namespace {

constexpr std::uint32_t kEndMark = 0x06054b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kLocator64Mark = 0x07064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::uint32_t kFileMark = 0x04034b50;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocator64Bytes = 20;
constexpr std::uint64_t kEntryBytes = 46;
constexpr std::uint64_t kFileBytes = 30;
constexpr std::uint64_t kLongestComment = 65535;
constexpr std::uint64_t kLargestDirectory = std::uint64_t{1} << 26U;
constexpr std::uint64_t kIn64Field = 0xFFFFFFFF;  ///< a number that stands in the 64-bit form
constexpr std::uint16_t kField64 = 1;
constexpr std::uint16_t kEncrypted = 1;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
constexpr std::size_t kFetch = std::size_t{1} << 17U;

/// Little-endian numbers at offsets of a block.
class Record {
public:
    explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}
    [[nodiscard]] std::uint64_t number(std::size_t at, std::size_t width) const {
        std::uint64_t value = 0;
        for (std::size_t i = width; i-- > 0;) {
            value = value << 8U | std::to_integer<std::uint64_t>(bytes_[at + i]);
        }
        return value;
    }
    [[nodiscard]] std::uint16_t u16(std::size_t at) const {
        return static_cast<std::uint16_t>(number(at, 2));
    }
    [[nodiscard]] std::uint32_t u32(std::size_t at) const {
        return static_cast<std::uint32_t>(number(at, 4));
    }

private:
    std::span<const std::byte> bytes_;
};

/// Where the directory lies.
struct Directory {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

class Archive {
public:
    explicit Archive(const std::string& path)
        : path_(path), file_(open_readable(path)), bytes_(file_bytes(file_, path)) {}

    [[nodiscard]] std::vector<ZipEntry> entries() const {
        const Directory directory = find_directory();
        require(directory.bytes <= kLargestDirectory && directory.bytes <= bytes_ &&
                directory.offset <= bytes_ - directory.bytes);
        const std::vector<std::byte> block = read(directory.offset, directory.bytes);
        std::vector<ZipEntry> found;
        for (std::span<const std::byte> rest(block); rest.size() >= kEntryBytes;) {
            const Record record(rest);
            require(record.u32(0) == kEntryMark);
            const std::size_t name = record.u16(28);
            const std::size_t extra = record.u16(30);
            const std::size_t whole = kEntryBytes + name + extra + record.u16(32);
            require(whole <= rest.size());
            ZipEntry entry{.name = {reinterpret_cast<const char*>(rest.data()) + kEntryBytes, name},
                           .header = record.u32(42),
                           .packed_bytes = record.u32(20),
                           .bytes = record.u32(24),
                           .crc32 = record.u32(16),
                           .method = record.u16(10)};
            widen(entry, rest.subspan(kEntryBytes + name, extra));
            require_file((record.u16(8) & kEncrypted) == 0, path_ + "/" + entry.name,
                         "the file is encrypted", "", "");
            if (!entry.name.ends_with('/')) {
                found.push_back(std::move(entry));
            }
            rest = rest.subspan(whole);
        }
        return found;
    }

private:
    void require(bool good) const {
        require_file(good, path_, "not a ZIP archive, or a damaged one", "", "");
    }
    [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t bytes) const {
        std::vector<std::byte> block(bytes);
        read_at(file_, path_, offset, block);
        return block;
    }

    /// The end record is the last thing but a comment.
    [[nodiscard]] Directory find_directory() const {
        require(bytes_ >= kEndBytes);
        const std::uint64_t tail = std::min(bytes_, kEndBytes + kLongestComment);
        const std::vector<std::byte> block = read(bytes_ - tail, tail);
        for (std::uint64_t at = tail - kEndBytes + 1; at-- > 0;) {
            const Record record{std::span<const std::byte>(block).subspan(at, kEndBytes)};
            if (record.u32(0) == kEndMark && at + kEndBytes + record.u16(20) == tail) {
                const Directory found{record.u32(16), record.u32(12)};
                const bool wide = found.offset == kIn64Field || found.bytes == kIn64Field;
                return wide ? find_directory64(bytes_ - tail + at) : found;
            }
        }
        require(false);
        return {};
    }
    [[nodiscard]] Directory find_directory64(std::uint64_t end) const {
        require(end >= kLocator64Bytes);
        const std::vector<std::byte> locator = read(end - kLocator64Bytes, kLocator64Bytes);
        const std::uint64_t at = Record(locator).number(8, 8);
        require(Record(locator).u32(0) == kLocator64Mark && bytes_ >= kEnd64Bytes &&
                at <= bytes_ - kEnd64Bytes);
        const std::vector<std::byte> block = read(at, kEnd64Bytes);
        require(Record(block).u32(0) == kEnd64Mark);
        return {Record(block).number(48, 8), Record(block).number(40, 8)};
    }

    /// Numbers that did not fit, in the order in which they are missing.
    void widen(ZipEntry& entry, std::span<const std::byte> extra) const {
        while (extra.size() >= 4) {
            const Record record(extra);
            const std::size_t bytes = record.u16(2);
            require(bytes + 4 <= extra.size());
            std::size_t at = 4;
            for (std::uint64_t* number : {&entry.bytes, &entry.packed_bytes, &entry.header}) {
                if (record.u16(0) == kField64 && *number == kIn64Field) {
                    require(at + 8 <= bytes + 4);
                    *number = record.number(at, 8);
                    at += 8;
                }
            }
            extra = extra.subspan(bytes + 4);
        }
    }

    const std::string& path_;
    FileDescriptor file_;
    std::uint64_t bytes_;
};

}  // namespace

struct ZipMember::Inflate {
    Inflate() { check_invariant(::inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib can begin"); }
    Inflate(const Inflate&) = delete;
    Inflate& operator=(const Inflate&) = delete;
    ~Inflate() { ::inflateEnd(&stream); }
    z_stream stream{};
    bool ended = false;
};

std::vector<ZipEntry> zip_entries(const std::string& archive) {
    return Archive(archive).entries();
}

ZipPath split_zip_path(const std::string& path) {
    constexpr std::string_view kInside = ".npz/";
    std::error_code error;
    std::string lower = path;
    std::ranges::transform(lower, lower.begin(), [](unsigned char letter) {
        return static_cast<char>(std::tolower(letter));
    });
    for (std::size_t at = lower.find(kInside); at != std::string::npos;
         at = lower.find(kInside, at + 1)) {
        const std::string archive = path.substr(0, at + kInside.size() - 1);
        if (std::filesystem::is_regular_file(archive, error)) {
            return {archive, path.substr(at + kInside.size())};
        }
    }
    return {"", path};
}

ZipMember::ZipMember(const ZipPath& path)
    : where_(path.archive + "/" + path.name),
      archive_(path.archive),
      file_(open_readable(path.archive)) {
    const std::vector<ZipEntry> all = zip_entries(path.archive);
    const auto found = std::ranges::find(all, path.name, &ZipEntry::name);
    require_file(found != all.end(), where_, "the archive has no such file", "", "");
    entry_ = *found;
    require_file(entry_.method == kStored || entry_.method == kDeflated, where_,
                 "unusable compression", "numpy.savez or numpy.savez_compressed",
                 fmt::format("method {}", entry_.method));
    find_data();
    if (entry_.method == kDeflated) {
        inflate_ = std::make_unique<Inflate>();
    }
}

ZipMember::ZipMember(ZipMember&&) noexcept = default;
ZipMember& ZipMember::operator=(ZipMember&&) noexcept = default;
ZipMember::~ZipMember() = default;

void ZipMember::fail_damaged(std::string_view what) const {
    fail<FileError>({.where = where_, .what = what});
}

void ZipMember::find_data() {
    const std::uint64_t whole = file_bytes(file_, archive_);
    std::vector<std::byte> header(kFileBytes);
    if (whole < kFileBytes || entry_.header > whole - kFileBytes) {
        fail_damaged("the archive is damaged");
    }
    read_at(file_, archive_, entry_.header, header);
    const Record record(header);
    at_ = entry_.header + kFileBytes + record.u16(26) + record.u16(28);
    left_ = entry_.packed_bytes;
    if (record.u32(0) != kFileMark || at_ > whole || left_ > whole - at_) {
        fail_damaged("the archive is damaged or cut off");
    }
}

std::span<std::byte> ZipMember::fetch() {
    buffer_.resize(std::min<std::uint64_t>(kFetch, left_));
    read_at(file_, archive_, at_, buffer_);
    at_ += buffer_.size();
    left_ -= buffer_.size();
    return buffer_;
}

std::size_t ZipMember::read_some(std::span<std::byte> bytes) {
    std::size_t got = 0;
    if (inflate_ == nullptr) {
        got = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_));
        read_at(file_, archive_, at_, bytes.first(got));
        at_ += got;
        left_ -= got;
    }
    while (inflate_ != nullptr && got < bytes.size() && !inflate_->ended) {
        z_stream& stream = inflate_->stream;
        if (stream.avail_in == 0 && left_ > 0) {
            const std::span<std::byte> packed = fetch();
            stream.next_in = reinterpret_cast<Bytef*>(packed.data());
            stream.avail_in = static_cast<uInt>(packed.size());
        }
        const std::size_t room = std::min<std::size_t>(bytes.size() - got, kFetch);
        stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + got);
        stream.avail_out = static_cast<uInt>(room);
        const int result = ::inflate(&stream, Z_NO_FLUSH);
        got += room - stream.avail_out;
        inflate_->ended = result == Z_STREAM_END;
        if (result != Z_OK && result != Z_STREAM_END) {
            fail_damaged("the deflated data is damaged or cut off");
        }
    }
    crc_ = crc32_of(bytes.first(got), crc_);
    done_ += got;
    if (got < bytes.size()) {
        check_end();
    }
    return got;
}

void ZipMember::check_end() const {
    if (done_ != entry_.bytes || crc_ != entry_.crc32) {
        fail_damaged("the data differs from the archive's length or CRC-32");
    }
}

}  // namespace cohort
