module walk

go 1.24
