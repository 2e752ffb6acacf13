"""*What must happen later?* Messages positioned in time, leased when due."""
