#include "data/hdf5/store_block.hpp"

#include "cohort/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>

namespace cohort {

namespace {

constexpr std::string_view kMagic = "cohort-store ";
constexpr std::string_view kFirstLine = "cohort-store 1\n";
constexpr std::size_t kBytesDigits = 20;
constexpr std::size_t kCrcDigits = 8;

template <class T>
std::optional<T> parse(std::string_view digits, int base) {
    T value{};
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
        return std::nullopt;
    }
    return value;
}

[[noreturn]] void fail_damaged_block(const std::string& path) {
    fail<FileError>({.where = path,
                     .what = "the store is damaged",
                     .expected = "a valid first block of 512 bytes",
                     .got = "one with changed bytes"});
}

/// @param length  of the file  @param crc_behind  CRC-32 of what is behind the block
StoreStamp verify(const StoreBlock& block, std::uint64_t length, const std::string& path,
                  const std::function<std::uint32_t()>& crc_behind) {
    const std::string_view text(reinterpret_cast<const char*>(block.data()), block.size());
    if (!text.starts_with(kMagic)) {
        fail<FileError>({.where = path,
                         .what = "not a cohort store",
                         .expected = "a file beginning with 'cohort-store'",
                         .got = length == 0 ? "an empty file" : "other bytes"});
    }
    if (!text.starts_with(kFirstLine)) {
        const std::string version(text.substr(kMagic.size(), text.find('\n') - kMagic.size()));
        fail<FileError>({.where = path,
                         .what = "a store of another version",
                         .expected = "1",
                         .got = version.size() < kBytesDigits ? version : "unreadable text"});
    }
    const std::size_t bytes_at = kFirstLine.size() + std::strlen("bytes ");
    const std::size_t crc_at = bytes_at + kBytesDigits + std::strlen("\ncrc32 ");
    const auto bytes = parse<std::uint64_t>(text.substr(bytes_at, kBytesDigits), 10);
    const auto crc = parse<std::uint32_t>(text.substr(crc_at, kCrcDigits), 16);
    if (!bytes || !crc) {
        fail_damaged_block(path);
    }
    if (*bytes != length) {
        fail<FileError>({.where = path,
                         .what = length < *bytes ? "the store is truncated" : "the store has grown",
                         .expected = fmt::format("{} bytes", *bytes),
                         .got = fmt::format("{}", length)});
    }
    if (block != make_store_block(*bytes, *crc)) {
        fail_damaged_block(path);
    }
    const std::uint32_t actual = crc_behind();
    if (actual != *crc) {
        fail<FileError>({.where = path,
                         .what = "the store is damaged (checksum of the whole file)",
                         .expected = fmt::format("CRC-32 {:08x}", *crc),
                         .got = fmt::format("{:08x}", actual)});
    }
    return {*bytes, *crc};
}

}  // namespace

StoreBlock make_store_block(std::uint64_t file_bytes, std::uint32_t crc32) {
    const std::string text =
        fmt::format("{}bytes {:020}\ncrc32 {:08x}\n", kFirstLine, file_bytes, crc32);
    StoreBlock block{};
    std::memcpy(block.data(), text.data(), text.size());
    return block;
}

StoreStamp verify_store_file(const std::string& path) {
    const FileDescriptor file = open_readable(path);
    const std::uint64_t length = file_bytes(file, path);
    StoreBlock block{};
    read_at(file, path, 0, std::span(block).first(std::min<std::uint64_t>(length, block.size())));
    return verify(block, length, path,
                  [&] { return file_crc32(file, path, kStoreBlockBytes, length); });
}

StoreStamp verify_store_image(std::span<const std::byte> bytes, const std::string& name) {
    StoreBlock block{};
    std::copy_n(bytes.begin(), std::min(bytes.size(), block.size()), block.begin());
    return verify(block, bytes.size(), name,
                  [&] { return crc32_of(bytes.subspan(kStoreBlockBytes)); });
}

template <>
hid_t store_type<float>() {
    return H5T_NATIVE_FLOAT;
}
template <>
hid_t store_type<double>() {
    return H5T_NATIVE_DOUBLE;
}
template <>
hid_t store_type<std::int64_t>() {
    return H5T_NATIVE_INT64;
}
template <>
hid_t store_type<std::uint64_t>() {
    return H5T_NATIVE_UINT64;
}
template <>
hid_t store_type<std::byte>() {
    return H5T_NATIVE_UINT8;
}

}  // namespace cohort
