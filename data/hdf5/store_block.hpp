#pragma once

#include "data/hdf5/store.hpp"

#include "data/file/file_io.hpp"

#include <hdf5.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cohort {

/// The first block of a store file, an HDF5 user block: text lines
///
///     cohort-store 1
///     bytes 00000000000000123456      length of the whole file
///     crc32 89abcdef                  CRC-32 of all bytes after this block
///
/// and zeros up to 512 bytes. It is written last, after everything else has its final bytes, and
/// read before HDF5 parses anything, so that HDF5 never meets a damaged file.
inline constexpr std::size_t kStoreBlockBytes = 512;
using StoreBlock = std::array<std::byte, kStoreBlockBytes>;

[[nodiscard]] StoreBlock make_store_block(std::uint64_t file_bytes, std::uint32_t crc32);

/// Reads the whole file and compares it with its first block, which it returns. Errors: FileError
/// saying whether the file is foreign, of another version, truncated or damaged.
StoreStamp verify_store_file(const std::string& path);
/// The same of a file in memory. @param name  for messages
StoreStamp verify_store_image(std::span<const std::byte> bytes, const std::string& name);

/// Names shared by writer and reader.
inline constexpr const char* kStoreFormatAttribute = "format";
inline constexpr const char* kStoreVersionAttribute = "version";
inline constexpr const char* kStoreArraysAttribute = "arrays";  ///< how many, written last
inline constexpr const char* kStoreCrcAttribute = "crc32";      ///< of each array

/// The type of an alternative of StoreElement in memory, which is also its type in the file: arrays
/// are stored as they are. Only on the HDF5 thread.
[[nodiscard]] hid_t store_type(std::size_t element);

}  // namespace cohort
