#pragma once

#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/data/import.hpp"

#include "support/core/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <zlib.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace cohort {

/// The bytes of an input file.
using Bytes = std::string;

inline void write(const std::string& path, const Bytes& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

inline void write_gz(const std::string& path, const Bytes& bytes) {
    gzFile file = ::gzopen(path.c_str(), "wb");
    ::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    ::gzclose(file);
}

inline Bytes read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// An IDX file.
inline Bytes idx(unsigned type, const std::vector<unsigned>& extents, const Bytes& values) {
    Bytes bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(extents.size())};
    for (const unsigned extent : extents) {
        for (const unsigned shift : {24U, 16U, 8U, 0U}) {
            bytes += static_cast<char>(extent >> shift);
        }
    }
    return bytes + values;
}

inline Bytes counting(std::size_t count) {
    Bytes bytes(count, '\0');
    std::iota(bytes.begin(), bytes.end(), '\0');
    return bytes;
}

/// Makes input files in one folder and imports them into another.
class ImportTest : public ::testing::Test {
protected:
    /// Of the input files.
    const std::string& folder() const { return in_.path(); }
    std::string file(const std::string& name) const { return in_.file(name); }
    std::string output() const { return out_.file("out.h5"); }
    std::string output(const std::string& name) const { return out_.file(name); }
    Hdf5Thread& thread() { return thread_; }
    ImportOptions options(const std::vector<std::string>& names = {}) const {
        ImportOptions options;
        for (const std::string& name : names) {
            options.inputs.push_back(file(name));
        }
        if (names.empty()) {
            options.inputs.push_back(in_.path());
        }
        options.output = output();
        options.overwrite = true;
        return options;
    }
    ImportReport import(const ImportOptions& options) { return import_dataset(options, thread_); }
    /// The FileError's text; also checks that nothing is left.
    std::string error(const ImportOptions& options) {
        try {
            import(options);
        } catch (const FileError& error) {
            EXPECT_TRUE(std::filesystem::is_empty(out_.path())) << "a failed import leaves nothing";
            return error.what();
        }
        return "no FileError";
    }
    RawChunk chunk(const std::string& group) {
        return open_dataset(output(), group, thread_)->read_chunk(0);
    }
    static std::vector<float> floats(const RawChunk& chunk) {
        std::vector<float> values(chunk.data.size() / sizeof(float));
        std::memcpy(values.data(), chunk.data.data(), chunk.data.size());
        return values;
    }
    void write_mnist_like(bool packed) {
        const auto put = [&](const std::string& name, const Bytes& bytes) {
            packed ? write_gz(file(name + ".gz"), bytes) : write(file(name), bytes);
        };
        put("train-images-idx3-ubyte", idx(8, {7, 2, 3}, counting(42)));
        put("train-labels-idx1-ubyte", idx(8, {7}, "\1\2\3\4\5\6\7"));
        put("t10k-images-idx3-ubyte", idx(8, {2, 2, 3}, counting(12)));
        put("t10k-labels-idx1-ubyte", idx(8, {2}, "\1\2"));
    }

private:
    TempFolder in_;
    TempFolder out_;
    Hdf5Thread thread_;
};

}  // namespace cohort
